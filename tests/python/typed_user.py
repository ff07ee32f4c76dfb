"""A user's script that type checkers accept. Lines that end with `# wrong` have an error that they must find."""
import numpy as np
from numpy.typing import NDArray

import imka
from imka.attention import KernelAttention, State, exact_attention, forms

data = imka.datasets.load("ringnorm", train_rows=100)
x: NDArray[np.float32] = data.x_train

model = imka.KernelRidgeClassifier(gamma="scale", log_ratio=2.0, backend="hermes", chip_set={"core.adc_noise": 2})
score: float = model.fit(x, data.y_train).score(x, data.y_train)
values: NDArray[np.float64] = model.decision_function(x)
features: NDArray[np.float32] = imka.RandomFeatures(gamma=0.1, n_components=64).set_params(sampler="sorf").fit(x).transform(x)
names = imka.RandomFeatures().fit(x).get_feature_names_out()
total: float = imka.KernelRidgeRegressor(alpha=0.1).partial_fit(x, x[:, 0]).coef_.sum()

programmed = imka.Chip("hermes", set={"core.adc_noise": 2}).program(np.eye(20), x, seed=3, replicas=2)
products: NDArray[np.float32] = programmed.age("1d", compensation="global").mvm(x)
rows, columns = programmed.shape

result = imka.cost(network="ks")
frame = result.to_pandas()
axes = result.plot()
cases = result.cases
plan = imka.deploy(model, x, backend="hermes")
if plan.model is not None:
    outputs = plan.model.run(x)

attention = KernelAttention(n_directions=16, causal=True)
y: NDArray[np.float32] = attention(x, x, x) - exact_attention(x, x, x, causal=True)
state: State = attention.state(heads=1, value_size=20)
formulas = [form["features"] for form in forms()]

imka.KernelRidgeClassifier(gama=1)  # wrong
programmed.mvm(x, sed=1)  # wrong
imka.Model(5)  # wrong
plan.model.run(x)  # wrong: None if there were no inputs to calibrate with
