// The kernels of batch normalisation: every case against the formulas of batch_norm.hpp in double, with a padded slot.
#include "base/label.hpp"
#include "kernels/batch_norm.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::largest_error;
using testing_support::numbers;

constexpr float kEpsilon = 1e-3F, kLossScale = 0.5F;

struct Given {
  explicit Given(const cases::BatchNormCase& c)
      : x(numbers(c.x.elements(), 1)),
        dy(numbers(c.x.elements(), 2)),
        weight(numbers(c.x.c, 3)),
        bias(numbers(c.x.c, 4)) {
    for (float& value : x) value += 2;
    for (std::int64_t n = 0; n < c.x.n; ++n) samples.push_back(n == 1 && c.x.n > 2 ? -1 : 50 + n);
  }
  std::vector<float> x, dy, weight, bias;
  std::vector<std::int64_t> samples;
};

/// Of channels, and of elements.
struct Values {
  std::vector<double> mean, variance, running_mean, running_variance, dweight, dbias;
  std::vector<double> y, y_of_running, dx;
};

/// The definition, one channel after the other.
Values expected_values(const cases::BatchNormCase& c, const Given& given) {
  Values e;
  e.y.resize(given.x.size()), e.y_of_running.resize(given.x.size()), e.dx.resize(given.x.size());
  const auto channels = static_cast<std::size_t>(c.x.c), slot = static_cast<std::size_t>(c.x.sample_size());
  const auto x = [&](std::size_t i) { return static_cast<double>(given.x[i]); };
  const auto dy = [&](std::size_t i) { return static_cast<double>(given.dy[i]); };
  const double share = static_cast<double>(kLossScale) *
                       static_cast<double>(std::ranges::count_if(given.samples, [](auto n) { return n >= 0; }));
  for (std::size_t k = 0; k < channels; ++k) {
    const double weight = c.affine ? static_cast<double>(given.weight[k]) : 1,
                 bias = c.affine ? static_cast<double>(given.bias[k]) : 0;
    std::vector<std::size_t> real;
    for (std::size_t i = k; i < given.x.size(); i += channels) {
      if (given.samples[i / slot] >= 0) real.push_back(i);
    }
    const auto m = static_cast<double>(real.size());
    double mean = 0, squares = 0, dbias = 0, dweight = 0;
    for (const std::size_t i : real) mean += x(i) / m;
    for (const std::size_t i : real) squares += (x(i) - mean) * (x(i) - mean);
    const auto rstd = [](double variance) { return 1 / std::sqrt(variance + static_cast<double>(kEpsilon)); };
    const double of_batch = rstd(squares / m), variance = squares / (m - 1);
    for (const std::size_t i : real) dbias += dy(i), dweight += dy(i) * (x(i) - mean) * of_batch;
    for (std::size_t i = k; i < given.x.size(); i += channels) {
      e.y[i] = weight * (x(i) - mean) * of_batch + bias;
      e.y_of_running[i] = weight * (x(i) - mean) * rstd(variance) + bias;
    }
    for (const std::size_t i : real)
      e.dx[i] = weight * of_batch * (dy(i) - dbias / m - (x(i) - mean) * of_batch * dweight / m);
    e.mean.push_back(mean), e.variance.push_back(variance);
    e.running_mean.push_back(share * mean), e.running_variance.push_back(share * variance);
    e.dweight.push_back(dweight), e.dbias.push_back(dbias);
  }
  return e;
}

class BatchNormKernels : public testing::TestWithParam<cases::BatchNormCase> {};

TEST_P(BatchNormKernels, MatchTheDefinition) {
  const cases::BatchNormCase& c = GetParam();
  const Given given(c);
  const Values expected = expected_values(c, given);
  const auto channels = static_cast<std::size_t>(c.x.c), elements = given.x.size();
  const DeviceArray<std::int64_t> samples(given.samples);
  StepState state;
  state.sample = samples.data(), state.loss_scale = kLossScale;
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  Context context = testing_support::context_for(2);
  context.step = step.data();
  const DeviceArray<float> x(given.x), dy(given.dy), weight(given.weight), bias(given.bias);
  const float* const weights = c.affine ? weight.data() : nullptr;
  const float* const biases = c.affine ? bias.data() : nullptr;
  const auto tensor = [&](const DeviceArray<float>& array) { return Tensor::dense(c.x, DType::kF32, array.data()); };
  const auto expect_near = [](const DeviceArray<float>& found, const std::vector<double>& values, double scale,
                              const char* what) {
    const std::vector<float> host = found.get();
    EXPECT_LE(largest_error({host.begin(), host.end()}, values, scale), 2e-6) << what;
  };
  const double sum = std::sqrt(static_cast<double>(c.x.n * c.x.pixels()));
  for (const int slots : {1, 3}) {
    const DeviceArray<double> sums(static_cast<std::size_t>(batch_norm_sums(c.x.c)));
    const DeviceArray<std::byte> scratch(batch_norm_scratch_bytes(slots, c.x));
    const DeviceArray<float> mean(channels), rstd(channels), variance(channels), share(1), running_mean(channels),
        running_variance(channels), dweight(channels), dbias(channels),
        maps(static_cast<std::size_t>(ChannelMap::elements(c.x.c)));
    const BatchStatistics statistics{mean.data(), rstd.data(), variance.data(), share.data()};
    const ChannelMap map = ChannelMap::in(maps.data(), c.x.c);
    const DeviceArray<float> y(std::vector<float>(elements, NAN)), dx(std::vector<float>(elements, NAN));

    sum_moments(context, slots, tensor(x), sums.data(), scratch.data());
    map_batch(context, c.x.c, kEpsilon, sums.data(), weights, biases, statistics, map);
    apply_map(context, "test"_label, map, tensor(x), tensor(y));
    expect_near(mean, expected.mean, 1, "mean");
    expect_near(variance, expected.variance, 1, "variance");
    expect_near(y, expected.y, 1, "y");

    write_running_statistics(context, c.x, statistics, running_mean.data(), running_variance.data());
    map_running(context, c.x.c, kEpsilon, mean.data(), variance.data(), weights, biases, map);
    apply_map(context, "test"_label, map, tensor(x), tensor(y));
    expect_near(running_mean, expected.running_mean, 1, "this pass' share of the running mean");
    expect_near(running_variance, expected.running_variance, 1, "this pass' share of the running variance");
    expect_near(y, expected.y_of_running, 1, "y by running statistics");

    sum_gradients(context, slots, tensor(x), tensor(dy), mean.data(), sums.data(), scratch.data());
    write_gradients(context, c.x.c, sums.data(), statistics, dweight.data(), dbias.data());
    map_gradient(context, c.x.c, sums.data(), weights, statistics, map);
    apply_map(context, "test"_label, map, tensor(dy), tensor(x), tensor(dx));
    expect_near(dweight, expected.dweight, sum, "dweight");
    expect_near(dbias, expected.dbias, sum, "dbias");
    expect_near(dx, expected.dx, 1, "dx");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, BatchNormKernels, testing::ValuesIn(cases::kBatchNormCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace petaflow
