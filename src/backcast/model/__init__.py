"""What a network is to Backcast: its parameters, its outputs, its losses and their curvature."""

from backcast.model.adapters import as_model
from backcast.model.batch import Batch
from backcast.model.categorical import Categorical
from backcast.model.curvature import Curvature, ggn, ggn_product
from backcast.model.custom import Custom
from backcast.model.door import check_batch
from backcast.model.gaussian import Gaussian, GaussianLearnedNoise, HeteroscedasticGaussian
from backcast.model.independent import Bernoulli, Poisson
from backcast.model.kronecker import KroneckerCurvature, kronecker_ggn
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.rotated import RotatedCurvature, rotated_ggn

__all__ = [
    "Batch",
    "Bernoulli",
    "Categorical",
    "Curvature",
    "Custom",
    "Gaussian",
    "GaussianLearnedNoise",
    "HeteroscedasticGaussian",
    "KroneckerCurvature",
    "Likelihood",
    "Model",
    "Poisson",
    "RotatedCurvature",
    "as_model",
    "check_batch",
    "ggn",
    "ggn_product",
    "kronecker_ggn",
    "rotated_ggn",
]
