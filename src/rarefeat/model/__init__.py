"""Mathematics that all studies share: data, encoder, objective, masks, bias, metrics.

Pure functions on tensors: nothing here reads a config or a file. Axes, in order:

- S: replicas, one per seed;
- n: samples; of a batch K positive pairs, of a training set N;
- 2: views of a pair;
- L: tokens of a sample;
- P, p: coordinates of a token and of a weight, p <= P; both d1 under the direct simulator;
- d1: dimension of a token;
- m: neurons;
- d: features, the minority ones last.
"""
