"""The table of all parts of the five papers, and the tests or experiments that show each.

A part works when a test or an experiment shows it; a part that nothing shows does not work yet.
Tests have their pytest names, experiments their names in `EXPERIMENTS`. `tests/lab/test_parts.py`
checks that all of them exist.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PAPERS: Final = {
    "F": "Carzaniga, Wolf: Forwarding in a Content-Based Network (2003)",
    "U": "Carzaniga, Rembert, Wolf: Understanding Content-Based Routing Schemes (2006)",
    "S": "Martins, Duarte: Routing Algorithms for Content-based Publish/Subscribe Systems (2010)",
    "M": "Yoneki, Bacon: Content-Based Routing with On-Demand Multicast (2004)",
    "L": "Raiciu, Rosenblum, Handley: Revisiting Content-Based Publish/Subscribe (2006)",
}
EXPERIMENT: Final = "experiment "


class Part(NamedTuple):
    """A part of a paper."""

    id: str
    title: str
    shown_by: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        return bool(self.shown_by)

    @property
    def tests(self) -> list[str]:
        return [shown for shown in self.shown_by if not shown.startswith(EXPERIMENT)]

    @property
    def experiments(self) -> list[str]:
        return [
            shown.removeprefix(EXPERIMENT)
            for shown in self.shown_by
            if shown.startswith(EXPERIMENT)
        ]


def _tests(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{file}.py::{name}" for name in names)


def _experiments(*names: str) -> tuple[str, ...]:
    return tuple(f"{EXPERIMENT}{name}" for name in names)


_TABLE: Final = (
    Part(
        "F1",
        "data model: typed attributes, constraints, predicates",
        _tests("language/test_meaning", "test_matches_equals_the_slow_twin"),
    ),
    Part(
        "F2",
        "routing protocol: receiver advertisements, sender requests, update replies",
        _tests(
            "routing/source_trees/test_content",
            "test_after_a_pull_tables_have_forgotten_what_is_no_longer_wanted",
            "test_where_shortest_paths_are_unique_events_take_the_links_of_pif",
        )
        + _tests("routing/test_scenarios", "test_nodes_do_what_the_transcript_says")
        + _experiments("f2-protocols"),
    ),
    Part(
        "F3",
        "CBF(m, B, T): broadcast output and matching interfaces",
        _tests("matching/test_forwarding", "test_forwarding_equals_the_slow_twin")
        + _tests(
            "routing/source_trees/test_content",
            "test_forwarding_is_the_broadcast_tree_among_matching_interfaces",
        )
        + _tests(
            "matching/rivals/test_counting",
            "test_selectivity_cbf_is_the_broadcast_among_matching_interfaces",
        ),
    ),
    Part(
        "F4",
        "extended counting algorithm",
        _tests(
            "matching/rivals/test_counting",
            "test_gives_the_ids_that_asking_every_predicate_gives",
            "test_the_forwarding_table_of_figure_2",
            "test_the_filters_of_a_matched_subscription_are_skipped",
            "test_all_excluded_or_all_matched_ends_the_work",
        ),
    ),
    Part(
        "F5",
        "multi-operator string index",
        _tests("matching/rivals/test_counting", "test_texts_in_the_trie"),
    ),
    Part(
        "F6",
        "selectivity table",
        _tests(
            "matching/rivals/test_counting",
            "test_determinants_of_figure_2",
            "test_rounds_exclude_and_are_counted",
        ),
    ),
    Part(
        "F7",
        "workload generator",
        _tests(
            "matching/test_workload",
            "test_forwarding_has_the_values_of_the_paper",
            "test_forwarding_names_follow_zipf_in_events_and_filters",
            "test_forwarding_constraints_follow_the_distributions_of_the_paper",
            "test_forwarding_values_of_events_follow_the_distributions_of_the_paper",
            "test_forwarding_gives_a_name_one_type_unless_drawn",
        ),
    ),
    Part(
        "F8",
        "results: Fig. 8 to 11, and the network effect",
        _tests(
            "lab/test_experiments",
            "test_a_time_counts_only_if_the_interfaces_are_right",
            "test_a_message_reaches_a_destination_of_the_tree_if_its_filter_holds",
        )
        + _experiments("f8-figure8", "f8-figure9", "f8-figure10", "f8-figure11", "f8-network"),
    ),
    Part("F9", "headline figures", _experiments("f9-headline", "f8-figure11")),
    Part(
        "U1",
        "model: init, header, forward; correct, latency-minimal, ideal",
        _tests("routing/test_delivery", "test_packets_are_wanted_relayed_spam_or_duplicates")
        + _tests("overlay/test_smallest", "test_the_smallest_tree_is_the_smallest_of_all")
        + _tests("routing/test_small_graphs", "test_the_theorems_hold_on_every_small_graph")
        + _experiments("u1-schemes", "u1-ideal"),
    ),
    Part(
        "U2",
        "PSF, per-source forwarding",
        _tests(
            "routing/source_trees/test_psf",
            "test_psf_is_ideal_on_every_graph",
            "test_psf_sends_what_the_paper_defines",
        )
        + _tests(
            "routing/source_trees/test_example_network", "test_the_descendants_that_the_paper_names"
        )
        + _experiments("u1-schemes", "u1-ideal"),
    ),
    Part(
        "U3",
        "iPS, indistinguishable sources as one",
        _tests(
            "routing/source_trees/test_ips",
            "test_ips_delivers_the_same_trees_as_psf",
            "test_ips_takes_sources_as_one_exactly_when_they_are_indistinguishable",
        )
        + _tests(
            "routing/source_trees/test_example_network", "test_sources_1_5_and_9_are_one_from_6_on"
        )
        + _experiments("u1-schemes", "u3-sharing"),
    ),
    Part(
        "U4",
        "PIF, per-interface forwarding",
        _tests(
            "routing/source_trees/test_pif",
            "test_pif_sends_what_the_paper_defines",
            "test_pif_is_not_ideal_on_the_graph_of_figure_3",
        )
        + _tests(
            "routing/source_trees/test_example_network",
            "test_pif_at_6_sends_to_9_what_5_9_and_10_want",
        )
        + _experiments("u1-schemes"),
    ),
    Part(
        "U5",
        "DRP, receivers partitioned hop by hop",
        _tests(
            "routing/source_trees/test_drp",
            "test_drp_is_ideal_where_shortest_paths_are_unique",
            "test_drp_is_not_ideal_where_unicast_takes_two_ways_through_one_node",
        )
        + _experiments("u1-schemes", "u1-ideal"),
    ),
    Part(
        "U6",
        "memory: the formulas beside the measured bits",
        _tests(
            "routing/test_memory",
            "test_formulas_bound_what_is_measured_where_interests_weigh_the_same",
            "test_counting_finds_what_reducing_finds",
        )
        + _experiments("u6-memory", "u6-distances"),
    ),
    Part(
        "U7",
        "disjunction advantage, general model: Fig. 5",
        _tests("lab/test_experiments", "test_the_closed_form_is_the_share_that_is_covered")
        + _experiments("u7-figure5"),
    ),
    Part(
        "U8",
        "disjunction advantage, DNF model: Fig. 6 and 7",
        _tests(
            "lab/test_experiments",
            "test_filters_follow_the_distributions_of_paper_u",
            "test_reduction_is_counted_as_the_paper_counts",
        )
        + _experiments("u8-figures6-7", "u8-applications"),
    ),
    Part(
        "S1",
        "flooding, with duplicates suppressed",
        _tests("routing/flooding/test_router", "test_flooding_reaches_everyone_once")
        + _tests(
            "routing/flooding/test_scheme",
            "test_flooding_goes_both_ways_over_links_but_where_it_came_from",
        ),
    ),
    Part("S2", "ideal multicast: one group per cluster of subscriptions"),
    Part("S3", "link matching: parallel search tree annotated with links"),
    Part(
        "S4",
        "MEDYM: match at the publisher, destination-list multicast",
        _tests(
            "routing/layers/test_medym",
            "test_the_surveys_reading_sends_the_packets_of_drp_and_psf",
            "test_over_the_destinations_nobody_relays_and_everyone_gets_it_once",
            "test_the_two_readings_compared_on_a_real_size",
        )
        + _tests(
            "routing/layers/test_layers",
            "test_every_pair_delivers_what_the_scan_finds_in_real_networks",
        ),
    ),
    Part("S5", "CGM: clusters of brokers, bounded groups"),
    Part("S6", "TCGM: CGM with a threshold"),
    Part("S7", "at most g groups, merging the least probable subspaces"),
    Part("S8", "grid cells with feature vectors, clustered to g groups"),
    Part("S9", "fixed grid partition with overlay trees"),
    Part(
        "S10",
        "learning by the reverse path: subscriptions flooded",
        _experiments("s12-covering")
        + _tests(
            "routing/reverse_path/test_router",
            "test_events_take_just_the_links_that_lead_to_someone",
        )
        + _tests("routing/test_scenarios", "test_nodes_do_what_the_transcript_says"),
    ),
    Part(
        "S11",
        "reverse path with advertisements",
        _experiments("s11-advertisements")
        + _tests(
            "routing/reverse_path/test_advertising",
            "test_what_nobody_advertises_is_remembered_and_told_later",
            "test_an_advertisement_is_in_force_when_the_subscriptions_are_back",
            "test_a_subscription_and_an_advertisement_may_cross",
            "test_the_last_events_before_an_advertisement_is_withdrawn_arrive",
        ),
    ),
    Part(
        "S12",
        "reverse path with covering",
        _experiments("s12-covering")
        + _tests(
            "routing/reverse_path/test_router",
            "test_uncovering_is_one_change",
            "test_what_is_covered_is_not_established_before_what_covers_it",
        )
        + _tests("language/test_poset", "test_equal_meanings_do_not_hide_each_other"),
    ),
    Part(
        "S13",
        "reverse path with imprecise merging",
        _experiments("s13-budget", "s13-adaptive")
        + _tests(
            "routing/reverse_path/test_adapting",
            "test_the_lowest_rung_never_tells_more_than_exact_or_covering",
            "test_nothing_is_missed_while_links_change_their_policies",
        )
        + _tests(
            "routing/reverse_path/test_merging",
            "test_the_waste_that_nodes_charge_is_what_reaches_dead_ends",
            "test_waste_beyond_the_budget_takes_mergers_apart_also_when_the_load_changes",
        ),
    ),
    Part(
        "S14",
        "rooted trees, unidirectional and bidirectional",
        _experiments("s14-hierarchy")
        + _tests(
            "routing/reverse_path/test_router",
            "test_with_cycles_events_take_the_links_of_the_twin",
            "test_a_root_that_dies_is_replaced",
        ),
    ),
    Part("S15", "Hermes: a rendezvous tree per event type"),
    Part(
        "S16",
        "a tree per publisher over Chord",
        _tests(
            "routing/structured/test_chord_trees",
            "test_an_event_that_all_want_takes_one_packet_fewer_than_there_are_nodes",
            "test_nothing_is_left_of_a_subscription_that_was_given_up",
        )
        + _tests(
            "routing/structured/test_substrates",
            "test_nodes_join_leave_and_crash_under_loss",
            "test_rings_that_were_partitioned_join_again",
        )
        + _experiments("s15-substrates"),
    ),
    Part("S17", "networks with cycles: subscription and notification trees"),
    Part(
        "S18",
        "joins, leaves, crashes, link failures: tables repaired",
        _tests(
            "sim/test_simulator",
            "test_a_swarm_finds_nothing_wrong",
            "test_every_kind_of_fault_strikes_and_is_survived",
        )
        + _tests("routing/test_scenarios", "test_nodes_do_what_the_transcript_says"),
    ),
    Part("S19", "EDN: signature strings hashed to intervals"),
    Part("S20", "index digests over Pastry with Scribe trees"),
    Part("S21", "Meghdoot over CAN"),
    Part("S22", "order-preserving hashing over Chord for ranges"),
    Part("S23", "PastryStrings: prefix routing for string constraints"),
    Part("S24", "semantic tree over one ordered attribute"),
    Part("S25", "affinity and the affinity tree"),
    Part("S26", "Sub-2-Sub: views and rings per optimal cluster"),
    Part("S27", "Brushwood: a parallel search tree spread over brokers"),
    Part(
        "S28",
        "the API of Table I",
        _tests(
            "routing/test_api",
            "test_what_is_published_reaches_every_established_subscription_once",
            "test_after_unsubscribe_nothing_comes_and_others_are_not_touched",
            "test_an_advertisement_comes_into_force_and_then_nothing_is_missed",
            "test_feedback_reaches_that_publisher_once_in_as_many_packets_as_the_distance",
        )
        + _tests(
            "live/test_api",
            "test_published_subscribed_and_unsubscribed_by_handle_and_by_value",
            "test_an_advertisement_comes_into_force_and_anything_else_is_refused",
            "test_feedback_goes_to_the_publisher_once_and_takes_the_links_of_the_path",
        ),
    ),
    Part("S29", "Tables II and III, measured"),
    Part("M1", "XML events typed by an XML schema"),
    Part("M2", "XPath subset as subscription language"),
    Part("M3", "subscription summary with Bloom filters"),
    Part("M4", "aggregation and group setting"),
    Part("M5", "extended ODMRP"),
    Part("M6", "refresh interval adapted to mobility prediction"),
    Part("M7", "the evaluation that the paper left open"),
    Part(
        "L1",
        "two layers: matching and delivery composed freely",
        _tests("routing/layers/test_layers", "test_every_pair_delivers_what_the_scan_finds")
        + _tests(
            "routing/layers/test_sealing",
            "test_delivery_nodes_never_hold_content",
            "test_an_event_can_be_read_by_its_destinations_alone",
        )
        + _experiments("l1-layers"),
    ),
    Part(
        "L2",
        "the configurable architecture: nodes, replicas, hops, regions",
        _tests(
            "routing/layers/test_placement",
            "test_an_event_meets_a_subscription_of_its_key_exactly_once",
        )
        + _tests("routing/layers/test_layers", "test_each_match_is_found_exactly_once")
        + _tests("sim/test_simulator", "test_every_pair_of_layers_bears_all_faults"),
    ),
    Part(
        "L3",
        "rendezvous functions",
        _tests("routing/layers/test_rendezvous", "test_who_matches_is_met")
        + _tests(
            "routing/layers/test_walks",
            "test_a_function_of_a_user_that_lies_is_found_out_by_audits",
        ),
    ),
    Part(
        "L4",
        "many applications on the same nodes",
        _tests(
            "routing/layers/test_applications",
            "test_each_application_has_its_own_subscribers_regions_and_deliveries",
            "test_reconfiguring_loses_nothing_and_doubles_nothing",
        )
        + _tests(
            "live/test_applications",
            "test_changing_an_application_as_it_runs_loses_and_doubles_nothing",
            "test_an_application_comes_and_goes_while_others_run",
            "test_subscribers_of_one_application_do_not_take_the_room_of_others",
            "test_tidings_up_runs_applications_and_reads_its_file_again",
        )
        + _tests(
            "sim/test_simulator",
            "test_settings_that_change_while_nodes_crash_lose_nothing_afterwards",
        )
        + _tests("live/test_isolation", "test_a_flood_holds_up_its_own_publishers_and_no_others"),
    ),
    Part(
        "L5",
        "the model, measured",
        _tests(
            "lab/test_layer_model",
            "test_the_law_holds_for_whatever_finds_all_matches",
            "test_what_regions_store_and_see_is_what_walks_bring",
        )
        + _experiments("l5-bound", "l5-match", "l5-latency", "l5-throughput", "l5-protocol"),
    ),
    Part(
        "L6",
        "five application profiles as workloads",
        _tests(
            "matching/test_applications",
            "test_an_application_is_its_column_of_table_1",
            "test_an_event_matches_the_share_it_should_at_every_scale",
        )
        + _experiments("l6-applications", "l5-protocol"),
    ),
    Part(
        "L7",
        "past its caveats: replication that follows load",
        _tests(
            "routing/layers/test_adapting",
            "test_an_event_meets_every_subscription_of_its_key_exactly_once",
            "test_constant_load_ends_all_change",
        )
        + _tests(
            "routing/layers/test_following",
            "test_an_event_visits_as_many_nodes_as_its_key_needs_and_at_most_h",
            "test_a_crowd_gets_more_regions_and_more_nodes_and_loses_them_again",
            "test_nodes_crash_and_return_while_places_follow_load",
            "test_nodes_are_visited_by_what_they_can_do",
        )
        + _tests("sim/test_simulator", "test_places_that_follow_load_bear_all_faults")
        + _tests("lab/test_planning", "test_a_plan_has_the_fewest_nodes_that_serve")
        + _tests("overlay/test_weights", "test_growing_by_one_node_keeps_those_that_serve")
        + _experiments("l7-caveats", "l7-protocol"),
    ),
)
PARTS: Final = {part.id: part for part in _TABLE}
