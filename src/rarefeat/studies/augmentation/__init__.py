"""What the two views of a pair make an encoder learn (Wen & Li 2021)."""
