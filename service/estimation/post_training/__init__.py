"""Post-training: distillation and learning from preferences and rewards, as one step of parts."""
