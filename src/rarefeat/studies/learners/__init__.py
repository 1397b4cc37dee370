"""Which learners miss a rare feature? Losses, encoders and optimisers on one data law."""
