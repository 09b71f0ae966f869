"""What was spoken, in writing. Above: sessions. It knows no channel and no language model."""
