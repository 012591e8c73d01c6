# Maps of counters: the paper's `map<filter, int> counters` (figures 4 and 7).
#
# The paper does not say which map its C++ used. `Tree` is what `std::map` is, a red-black tree;
# `Hash` is what `std::unordered_map` is, chains in buckets that double. As there, every counter is
# an allocation of its own. As in the figures, a map begins empty for every event.

from libc.stdlib cimport calloc, free, malloc

cdef struct Entry:  # a counter in a tree
    Entry *parent
    Entry *child[2]  # those of lower filters, those of higher ones
    int32_t filter
    int32_t count
    bint red

cdef struct Tree:
    Entry *root

cdef struct Link:  # a counter in a chain
    Link *next  # of the same bucket
    Link *older  # the one made before, in any bucket
    uint32_t filter
    int32_t count

cdef struct Hash:
    Link **buckets
    Link *newest
    uint32_t size  # how many buckets
    uint32_t used  # how many counters


cdef inline int32_t count_in_tree(Tree *tree, int32_t filter_) noexcept nogil:
    """Count one more for a filter; returns its count, or 0 if there is no memory."""
    cdef Entry *at = tree.root
    cdef Entry *parent = NULL
    cdef bint side = False
    while at != NULL:
        if at.filter == filter_:
            at.count += 1
            return at.count
        parent = at
        side = at.filter < filter_
        at = at.child[side]
    at = <Entry *>malloc(sizeof(Entry))
    if at == NULL:
        return 0
    at.parent, at.filter, at.count, at.red = parent, filter_, 1, True
    at.child[0] = at.child[1] = NULL
    if parent == NULL:
        tree.root = at
    else:
        parent.child[side] = at
    balance(tree, at)
    return 1


cdef void balance(Tree *tree, Entry *at) noexcept nogil:
    """Restore the tree after `at` was added: no red child of a red parent."""
    cdef Entry *parent
    cdef Entry *above
    cdef Entry *uncle
    cdef bint side
    while at.parent != NULL and at.parent.red:
        parent = at.parent
        above = parent.parent  # exists, because the root is black
        side = parent == above.child[1]
        uncle = above.child[not side]
        if uncle != NULL and uncle.red:
            parent.red = uncle.red = False
            above.red = True
            at = above
            continue
        if at == parent.child[not side]:
            rotate(tree, parent, side)
            at, parent = parent, at
        parent.red, above.red = False, True
        rotate(tree, above, not side)
    tree.root.red = False


cdef void rotate(Tree *tree, Entry *at, bint side) noexcept nogil:
    """Move an entry down to one side; its child of the other side takes its place."""
    cdef Entry *up = at.child[not side]
    cdef Entry *inner = up.child[side]
    at.child[not side] = inner
    if inner != NULL:
        inner.parent = at
    up.parent = at.parent
    if at.parent == NULL:
        tree.root = up
    else:
        at.parent.child[at == at.parent.child[1]] = up
    up.child[side] = at
    at.parent = up


cdef void free_tree(Entry *at) noexcept nogil:
    """Free an entry and all below it."""
    cdef Entry *lower
    while at != NULL:
        free_tree(at.child[1])
        lower = at.child[0]
        free(at)
        at = lower


cdef inline int32_t count_in_hash(Hash *hash, uint32_t filter_) noexcept nogil:
    """Count one more for a filter; returns its count, or 0 if there is no memory."""
    cdef Link *at
    if hash.used:
        at = hash.buckets[filter_ % hash.size]
        while at != NULL:
            if at.filter == filter_:
                at.count += 1
                return at.count
            at = at.next
    if hash.used == hash.size and not grow_hash(hash):
        return 0
    at = <Link *>malloc(sizeof(Link))
    if at == NULL:
        return 0
    cdef Link **bucket = &hash.buckets[filter_ % hash.size]
    at.next, at.older, at.filter, at.count = bucket[0], hash.newest, filter_, 1
    bucket[0] = hash.newest = at
    hash.used += 1
    return 1


cdef bint grow_hash(Hash *hash) noexcept nogil:
    """Double the buckets; returns whether there was memory."""
    cdef uint32_t size = 2 * hash.size + 13
    cdef Link **buckets = <Link **>calloc(size, sizeof(Link *))
    cdef Link **bucket
    cdef Link *at = hash.newest
    if buckets == NULL:
        return False
    while at != NULL:
        bucket = &buckets[at.filter % size]
        at.next = bucket[0]
        bucket[0] = at
        at = at.older
    free(hash.buckets)
    hash.buckets, hash.size = buckets, size
    return True


cdef void free_hash(Hash *hash) noexcept nogil:
    """Free all counters and buckets."""
    cdef Link *at = hash.newest
    cdef Link *older
    while at != NULL:
        older = at.older
        free(at)
        at = older
    free(hash.buckets)
    hash.buckets, hash.newest, hash.size, hash.used = NULL, NULL, 0, 0
