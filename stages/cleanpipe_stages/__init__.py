"""The first stage pack; it enters by the same door as anyone's."""
