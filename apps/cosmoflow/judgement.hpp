// How the predictions of the CosmoFlow application are judged.
#pragma once

#include <string>
#include <vector>

#include "cosmoflow/options.hpp"
#include "metrics/regression.hpp"
#include "program/application.hpp"

namespace petaflow::cosmoflow {

/// What the network estimates, one parameter per output.
std::vector<EstimatedParameter> estimated_parameters(const Options& options);

/// "mae", the mean absolute error of the labels (the metric of MLPerf HPC), and "error_<parameter>" of each: the mean
/// relative error of its physical value.
std::vector<std::string> metric_names(const Options& options);

/// The network's metrics, beside those of other methods; in full with bootstrap errors over universes.
Evaluation judge(const Options& options, const CosmoData& data, const Predictions& predictions,
                 const std::vector<Estimates>& others, Depth depth);

/// A number per parameter: estimate and true in physical units (true NaN where it is not known), estimate_normalised as
/// the network gives it.  Attributes parameters and units, a line per parameter.
PredictionRows prediction_rows(const Options& options, const Predictions& predictions);

}  // namespace petaflow::cosmoflow
