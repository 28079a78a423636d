// The metrics of the HEP application as lines for people.
#pragma once

#include <string>

#include "train/classification.hpp"

namespace petaflow::hep {

std::string evaluation_table(const ClassificationReport& report);

}  // namespace petaflow::hep
