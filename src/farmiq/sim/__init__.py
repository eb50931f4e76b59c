"""The simulated farm: animals that grow from day to day, and the pictures that a weigh station would take of them.

In: seeds and parameters. Out: weights in kilograms, body measures in metres, pictures as Pillow images or JPEG bytes.
Promises: the same seed and the same parameters give the same animal and the same picture. Nothing here is a photograph:
a model trained on these pictures weighs these animals, and a farm trains on its own (docs/guides/train-a-model.md).
Needs Pillow and NumPy, and nothing else of ours; only `station` knows what a driver of `weighvision-agent` is.

- `animals`: a pig from birth on: growth, body measures, pose
- `coats`: the colours of its skin
- `scenes`: everything in the picture that is not the animal, and the three families of scenes that training keeps apart
- `pictures`: an animal in a scene, as a picture
- `misfires`: pictures that show no animal that could be weighed
- `samples`: a picture with its true weight
- `station`: a batch of animals that walks over a scale under a camera, as drivers of `weighvision-agent`
- `views`, `solids`, `skin`, `figure`, `ground`, `fences`: camera, shapes, animal, floor and steel, as arrays
"""
