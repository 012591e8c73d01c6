"""Matching: which subscriptions does this event satisfy?"""
