"""Transcription of speech. Above: sessions. It knows no channel and no language model."""
