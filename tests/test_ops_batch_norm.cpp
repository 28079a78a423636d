// The kernels of batch normalisation: every case against the formulas of batch_norm.hpp in double, with a padded slot,
// in all precisions, with gaps between pixels, gradients written and added.
#include "base/label.hpp"
#include "epilogue_reference.hpp"
#include "kernels/batch_norm.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::doubles;
using testing_support::largest_error;
using testing_support::numbers;

constexpr float kEpsilon = 1e-3F, kLossScale = 0.5F;

template <class T>
struct Given {
  explicit Given(const cases::BatchNormCase& c)
      : x(typed(c.x.elements(), 1, 2)),
        dy(typed(c.desc(kDTypeOf<T>).y.elements(), 2, 0)),
        residual(typed(c.residual ? c.x.elements() : 0, 5, 0)),
        weight(numbers(c.x.c, 3)),
        bias(numbers(c.x.c, 4)) {
    for (std::int64_t n = 0; n < c.x.n; ++n) samples.push_back(n == 1 && c.x.n > 2 ? -1 : 50 + n);
    const auto slot = dy.size() / samples.size();  // nothing comes back to padded ones
    if (c.x.n > 2) std::fill_n(dy.begin() + static_cast<std::ptrdiff_t>(slot), slot, T(0.0F));
  }
  static std::vector<T> typed(std::int64_t count, std::uint32_t seed, float shift) {
    std::vector<T> result;
    for (const float value : numbers(count, seed)) result.push_back(static_cast<T>(value + shift));
    return result;
  }
  std::vector<T> x, dy, residual;
  std::vector<float> weight, bias;
  std::vector<std::int64_t> samples;
};

/// Expected values of channels, and of elements.
struct Values {
  std::vector<double> mean, variance, running_mean, running_variance, dweight, dbias;
  std::vector<double> y, y_of_running, dx, dz;
};

/// The definition, one channel after the other.
template <class T>
Values expected_values(const cases::BatchNormCase& c, Given<T>& given) {
  Values e;
  const std::vector<double> x = doubles(given.x), residual = doubles(given.residual);
  std::vector<double> dy = doubles(given.dy);
  const auto channels = static_cast<std::size_t>(c.x.c), slot = static_cast<std::size_t>(c.x.sample_size());
  const double share = static_cast<double>(kLossScale) *
                       static_cast<double>(std::ranges::count_if(given.samples, [](auto n) { return n >= 0; }));
  const auto rstd = [](double variance) { return 1 / std::sqrt(variance + static_cast<double>(kEpsilon)); };
  const auto weight = [&](std::size_t k) { return c.affine ? static_cast<double>(given.weight[k]) : 1; };
  std::vector<std::vector<std::size_t>> real(channels);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (given.samples[i / slot] >= 0) real[i % channels].push_back(i);
  }
  const auto m = static_cast<double>(real[0].size());
  std::vector<double> of_batch, z = residual, z_of_running = residual;
  z.resize(x.size()), z_of_running.resize(x.size());
  for (std::size_t k = 0; k < channels; ++k) {
    double mean = 0, squares = 0;
    for (const std::size_t i : real[k]) mean += x[i] / m;
    for (const std::size_t i : real[k]) squares += (x[i] - mean) * (x[i] - mean);
    const double variance = squares / (m - 1), bias = c.affine ? static_cast<double>(given.bias[k]) : 0;
    of_batch.push_back(rstd(squares / m));
    for (std::size_t i = k; i < x.size(); i += channels) {
      z[i] += weight(k) * (x[i] - mean) * of_batch[k] + bias;
      z_of_running[i] += weight(k) * (x[i] - mean) * rstd(variance) + bias;
    }
    e.mean.push_back(mean), e.variance.push_back(variance);
    e.running_mean.push_back(share * mean), e.running_variance.push_back(share * variance);
  }
  const EpilogueDesc desc = c.desc(kDTypeOf<T>);
  // Where a sum is 0 but for its rounding, nobody can tell its sign: no gradient comes there.
  for (std::size_t i = 0; desc.activation && dy.size() == z.size() && i < z.size(); ++i) {
    if (std::abs(z[i]) < 1e-6) given.dy[i] = T(0.0F), dy[i] = 0;
  }
  e.y_of_running = testing_support::epilogue_reference(desc, z_of_running, dy, given.samples, false).y;
  std::tie(e.y, e.dz) = [&] {
    auto r = testing_support::epilogue_reference(desc, z, dy, given.samples, true);
    return std::pair(std::move(r.y), std::move(r.dz));
  }();
  e.dx.resize(x.size());
  for (std::size_t k = 0; k < channels; ++k) {
    double dbias = 0, dweight = 0;
    for (const std::size_t i : real[k]) dbias += e.dz[i], dweight += e.dz[i] * (x[i] - e.mean[k]) * of_batch[k];
    for (const std::size_t i : real[k])
      e.dx[i] = weight(k) * of_batch[k] * (e.dz[i] - dbias / m - (x[i] - e.mean[k]) * of_batch[k] * dweight / m);
    e.dweight.push_back(dweight), e.dbias.push_back(dbias);
  }
  return e;
}

/// A tensor whose pixels lie channels + gap apart, with numbers of somebody else between them.
template <class T>
class Gapped {
 public:
  Gapped(const Shape& shape, int gap, const std::vector<T>& dense) : shape_(shape), gap_(gap), array_(spread(dense)) {}
  Gapped(const Shape& shape, int gap, float value)
      : Gapped(shape, gap, std::vector<T>(static_cast<std::size_t>(shape.elements()), static_cast<T>(value))) {}

  Tensor tensor() const { return {shape_, kDTypeOf<T>, shape_.c + gap_, array_.data()}; }
  std::vector<double> get() const {
    const std::vector<double> wide = doubles(array_.get());
    std::vector<double> dense;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (static_cast<std::int64_t>(i) % (shape_.c + gap_) < shape_.c) {
        dense.push_back(wide[i]);
      } else {
        EXPECT_EQ(wide[i], kTheirs);
      }
    }
    return dense;
  }

 private:
  static constexpr double kTheirs = 776;  // exact in bf16 and fp16

  std::vector<T> spread(const std::vector<T>& dense) const {
    std::vector<T> wide;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      wide.push_back(dense[i]);
      if (static_cast<std::int64_t>(i + 1) % shape_.c == 0)
        wide.insert(wide.end(), static_cast<std::size_t>(gap_), static_cast<T>(static_cast<float>(kTheirs)));
    }
    return wide;
  }

  Shape shape_;
  int gap_;
  DeviceArray<T> array_;
};

class BatchNormKernels : public testing::TestWithParam<cases::BatchNormCase> {
 protected:
  template <class T>
  void compare() {
    const cases::BatchNormCase& c = GetParam();
    Given<T> given(c);
    const Values expected = expected_values(c, given);
    const auto channels = static_cast<std::size_t>(c.x.c);
    const DeviceArray<std::int64_t> samples(given.samples);
    StepState state = testing_support::step_state();
    state.sample = samples.data(), state.loss_scale = kLossScale;
    const DeviceArray<StepState> step(std::vector<StepState>{state});
    Context context = testing_support::context_for(2);
    context.step = step.data();
    const DeviceArray<float> weight(given.weight), bias(given.bias);
    const float* const weights = c.affine ? weight.data() : nullptr;
    const float* const biases = c.affine ? bias.data() : nullptr;
    const auto expect_near = [](const DeviceArray<float>& found, const std::vector<double>& values, double scale,
                                const char* what) {
      EXPECT_LE(largest_error(doubles(found.get()), values, scale), 2e-6) << what;
    };
    constexpr double kTolerance = 2e-6 + (is_rounded(kDTypeOf<T>) ? testing_support::roundoff(kDTypeOf<T>) : 0);
    const auto expect_elements = [&](const Gapped<T>& found, const std::vector<double>& values, const char* what) {
      EXPECT_LE(largest_error(found.get(), values, 1), kTolerance) << what;
    };
    const EpilogueDesc desc = c.desc(kDTypeOf<T>);
    const double sum = std::sqrt(static_cast<double>(c.x.n * c.x.pixels()));
    for (const auto& [host_parts, gap] : {std::pair{1, 0}, {3, 0}, {2, 3}}) {
      const Gapped<T> x(c.x, gap, given.x), dy(desc.y, gap, given.dy), y(desc.y, gap, NAN), dx(c.x, gap, NAN),
          dr(c.x, gap, NAN), residual(c.residual ? c.x : Shape{}, gap, given.residual);
      const DeviceArray<double> sums(static_cast<std::size_t>(batch_norm_sums(c.x.c)));
      const DeviceArray<std::byte> scratch(batch_norm_scratch_bytes(host_parts, desc));
      EXPECT_LE(batch_norm_scratch_bytes(host_parts, c.x), batch_norm_scratch_bytes(host_parts, desc));
      const DeviceArray<float> mean(channels), rstd(channels), variance(channels), share(1), running_mean(channels),
          running_variance(channels), dweight(channels), dbias(channels),
          maps(static_cast<std::size_t>(ChannelMap::elements(c.x.c)));
      const DeviceArray<std::uint8_t> saved(static_cast<std::size_t>(desc.v.n * desc.saved_bytes_per_sample()));
      const BatchStatistics statistics{mean.data(), rstd.data(), variance.data(), share.data()};
      const ChannelMap map = ChannelMap::in(maps.data(), c.x.c);
      const Epilogue behind(desc, map.offset, y.tensor(), dy.tensor(), desc.saves() ? saved.data() : nullptr,
                            {map.scale[0], c.residual ? residual.tensor() : Tensor{}});

      context.training = false;
      sum_moments(context, host_parts, x.tensor(), sums.data(), scratch.data());
      map_batch(context, c.x.c, kEpsilon, sums.data(), weights, biases, statistics, map);
      expect_near(mean, expected.mean, 1, "mean");
      expect_near(variance, expected.variance, 1, "variance");
      write_running_statistics(context, c.x, statistics, running_mean.data(), running_variance.data());
      map_running(context, c.x.c, kEpsilon, mean.data(), variance.data(), weights, biases, map);
      behind.forward_all(context, "test"_label, x.tensor().data, x.tensor().pixel_stride);
      expect_near(running_mean, expected.running_mean, 1, "this pass' share of the running mean");
      expect_near(running_variance, expected.running_variance, 1, "this pass' share of the running variance");
      expect_elements(y, expected.y_of_running, "y by running statistics");

      context.training = true;
      map_batch(context, c.x.c, kEpsilon, sums.data(), weights, biases, statistics, map);
      behind.forward_all(context, "test"_label, x.tensor().data, x.tensor().pixel_stride);
      expect_elements(y, expected.y, "y");

      sum_gradients(context, host_parts, x.tensor(), behind, mean.data(), sums.data(), scratch.data());
      write_gradients(context, c.x.c, sums.data(), statistics, dweight.data(), dbias.data());
      map_gradient(context, c.x.c, sums.data(), weights, statistics, map);
      const auto apply = [&](const GradientTarget& to, const GradientTarget& to_residual) {
        apply_gradient_map(context, host_parts, "test"_label, map, x.tensor(), behind, to, to_residual, scratch.data());
      };
      apply({dx.tensor()}, {dr.tensor()});
      expect_near(dweight, expected.dweight, sum, "dweight");
      expect_near(dbias, expected.dbias, sum, "dbias");
      expect_elements(dx, expected.dx, "dx");
      expect_elements(dr, expected.dz, "the residual's gradient");
      const Gapped<T> more(c.x, gap, 0.5F), more_residual(c.x, gap, -2.0F);
      apply({more.tensor(), true}, {});
      apply({}, {more_residual.tensor(), true});
      const auto plus = [](std::vector<double> values, double number) {
        for (double& value : values) value += number;
        return values;
      };
      expect_elements(more, plus(expected.dx, 0.5), "dx added");
      expect_elements(more_residual, plus(expected.dz, -2), "the residual's gradient added");
    }
  }
};

TEST_P(BatchNormKernels, MatchTheDefinition) { compare<float>(); }
TEST_P(BatchNormKernels, MatchTheDefinitionRounded) {
  testing_support::for_rounded_types([this]<class T>(T) { compare<T>(); });
}

INSTANTIATE_TEST_SUITE_P(Cases, BatchNormKernels, testing::ValuesIn(cases::kBatchNormCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace petaflow
