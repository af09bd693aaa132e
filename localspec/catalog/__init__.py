"""Knowledge of models.toml: schema, loading, the user's overlay, choosing a pair."""
