#include "climate/scaling.hpp"

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

double inverse(double x) { return x > 0 ? 1 / x : 0; }

}  // namespace

ChannelScaling make_scaling(Normalise normalise, const Statistics& statistics, std::span<const int> fields,
                            const std::string& source) {
  ChannelScaling scaling;
  const auto add = [&](double offset, double factor) {
    scaling.offsets.push_back(offset);
    scaling.factors.push_back(factor);
  };
  for (const int field : fields) {
    const FieldStatistics& one = statistics[field];
    if (normalise != Normalise::kNone && one.count == 0) {
      user_error("{}: there are no statistics of {}", source, kFields[static_cast<std::size_t>(field)].name);
    }
    if (normalise == Normalise::kNone) {
      add(0, 1);
    } else if (normalise == Normalise::kMinMax) {
      add(one.min, inverse(one.max - one.min));
    } else if (one.has_deviation()) {
      add(one.mean, 1 / one.deviation());
    } else {
      add((one.min + one.max) / 2, 2 * inverse(one.max - one.min));
    }
  }
  return scaling;
}

}  // namespace petaflow::climate
