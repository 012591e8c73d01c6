"""The data pipeline: matching events and subscriptions on Spark."""
