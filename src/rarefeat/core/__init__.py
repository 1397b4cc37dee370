"""Old import paths of the public interface, for one release."""
