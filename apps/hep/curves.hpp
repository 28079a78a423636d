// What a page is drawn from, computed at the end of an evaluation, while the events are there.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hep/evaluator.hpp"

namespace petaflow::hep {

/// Names of the labels in results and curves.
inline constexpr const char* kClasses[2] = {"background", "signal"};

/// Points of the ROC curve, histograms of the score (log-odds) per class, calibration, pictures of a few events.
/// Without events of both classes there are pictures alone.
nlohmann::json curves_of(const HepEvaluator& evaluator);

}  // namespace petaflow::hep
