"""Changes and checks of pods at admission. Pure."""
