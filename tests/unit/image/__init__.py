"""Rules for images, the engine's streams, SWR."""
