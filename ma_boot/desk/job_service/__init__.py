"""The job on ModelArts: its code in OBS, the API, and following it to its end."""
