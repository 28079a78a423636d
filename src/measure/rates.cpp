#include "measure/rates.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

namespace petaflow {
namespace {

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-";
}

/// Rate and share of peak of one direction of a stage.
std::array<std::string, 2> cells(double seconds, double flop, double peak_gflops) {
  if (!(flop > 0 && seconds > 0)) return {"-", "-"};
  const double rate = 1e-9 * flop / seconds;
  return {fmt::format("{:.0f}", rate), share_text(rate, peak_gflops)};
}

}  // namespace

std::vector<std::pair<std::string, double>> parts(const StepTimes& times) {
  return {{"input", times.input},
          {"forward", times.forward},
          {"backward", times.backward},
          {"communication", times.communication},
          {"optimizer", times.optimizer}};
}

std::string describe(const StepTimes& times) {
  std::string text;
  for (const auto& [name, seconds] : parts(times)) {
    text +=
        fmt::format("{}{} {:.2f} s ({})", text.empty() ? "" : ", ", name, seconds, share_text(seconds, times.total()));
  }
  return text;
}

std::string describe(const CommunicationTimes& communication) {
  if (communication.buckets.empty()) return "";
  double mib = 0, under_way_ms = 0, exposed_ms = 0;
  for (const BucketTimes& bucket : communication.buckets) {
    const double sums = static_cast<double>(std::max<std::int64_t>(1, bucket.sums));
    mib += static_cast<double>(bucket.elements) / (1 << 18);
    under_way_ms += 1e3 * bucket.under_way_s / sums;
    exposed_ms += 1e3 * bucket.exposed_s / sums;
  }
  std::string text = fmt::format(
      "gradient all-reduce: {:.2f} MiB in {} {} per step, {:.2f} ms, of which {:.2f} ms not overlapped", mib,
      communication.buckets.size(), communication.buckets.size() == 1 ? "bucket" : "buckets", under_way_ms, exposed_ms);
  const Wait* longest = nullptr;
  std::size_t who = 0;
  for (std::size_t rank = 0; rank < communication.waits.size(); ++rank) {
    const std::vector<Wait>& waits = communication.waits[rank];
    if (waits.empty() || (longest != nullptr && waits.front().seconds <= longest->seconds)) continue;
    longest = &waits.front();
    who = rank;
  }
  if (longest != nullptr) {
    text += fmt::format("; longest wait: rank {} for {}, {:.2f} s in total", who, longest->whom, longest->seconds);
  }
  return text;
}

nlohmann::json to_json(const CommunicationTimes& communication) {
  nlohmann::json buckets = nlohmann::json::array(), ranks = nlohmann::json::array();
  for (const BucketTimes& bucket : communication.buckets) {
    const double sums = static_cast<double>(std::max<std::int64_t>(1, bucket.sums));
    const double under_way_s = bucket.under_way_s / sums;
    buckets.push_back({{"reduction", bucket.reduction},
                       {"elements", bucket.elements},
                       {"sums", bucket.sums},
                       {"under_way_ms", 1e3 * under_way_s},
                       {"waited_ms", 1e3 * bucket.exposed_s / sums}});
    if (bucket.sent_bytes > 0) {
      buckets.back()["sent_bytes"] = bucket.sent_bytes;
      if (under_way_s > 0) buckets.back()["mb_per_s"] = 1e-6 * bucket.sent_bytes / under_way_s;
    }
  }
  for (std::size_t rank = 0; rank < communication.waits.size(); ++rank) {
    nlohmann::json waits = nlohmann::json::array();
    for (const Wait& wait : communication.waits[rank]) waits.push_back({{"for", wait.whom}, {"seconds", wait.seconds}});
    ranks.push_back({{"rank", rank}, {"waited", waits}});
  }
  return {{"buckets", buckets}, {"ranks", ranks}};
}

namespace {

/// Of one push and its answer, mean over all groups.
struct PushMeans {
  double bytes = 0;  // each way
  double under_way_s = 0, exposed_s = 0;

  explicit PushMeans(const LayerService& layer) {
    const auto pushes = static_cast<double>(std::max<std::int64_t>(1, layer.gradients()));
    bytes = static_cast<double>(sizeof(float)) * static_cast<double>(layer.elements);
    under_way_s = layer.times.under_way_s / pushes;
    exposed_s = layer.times.exposed_s / pushes;
  }
};

}  // namespace

std::string describe(const std::vector<LayerService>& service) {
  double bytes = 0, under_way_s = 0, exposed_s = 0;
  for (const LayerService& layer : service) {
    const PushMeans means(layer);
    bytes += 2 * means.bytes;
    under_way_s += means.under_way_s;
    exposed_s += means.exposed_s;
  }
  return fmt::format(
      "pushes to servers: {:.2f} MiB there and as many back in {} {} a step, {:.2f} ms under way, {:.2f} ms of it "
      "waited for, {:.0f} MB/s",
      bytes / (2 << 20), service.size(), service.size() == 1 ? "layer" : "layers", 1e3 * under_way_s, 1e3 * exposed_s,
      under_way_s > 0 ? 1e-6 * bytes / under_way_s : 0);
}

nlohmann::json to_json(const LayerService& service) {
  const PushMeans means(service);
  return {{"layer", service.layer},
          {"pushes", service.gradients()},
          {"sent_bytes", means.bytes},
          {"received_bytes", means.bytes},
          {"under_way_ms", 1e3 * means.under_way_s},
          {"waited_ms", 1e3 * means.exposed_s},
          {"mb_per_s", means.under_way_s > 0 ? 2e-6 * means.bytes / means.under_way_s : 0}};
}

std::string stage_table(const Network& network, std::int64_t micro_batches, double peak_gflops) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "GFLOP", "fwd ms", "GFLOP/s", "of peak", "bwd data ms", "bwd weights ms", "GFLOP/s", "of peak"}};
  const double count = static_cast<double>(std::max<std::int64_t>(1, micro_batches));
  for (const StageReport& stage : network.report()) {
    const auto forward = cells(stage.forward_s / count, stage.forward_flop, peak_gflops);
    const auto backward = cells(stage.backward_s / count, stage.backward_flop, peak_gflops);
    const auto ms = [&](double seconds) { return fmt::format("{:.2f}", 1e3 * seconds / count); };
    const bool is_conv = stage.kind == StageKind::kConvolution, has_data = !is_conv || stage.backward_data != "-";
    rows.push_back({stage.name, fmt::format("{:.2f}", 1e-9 * (stage.forward_flop + stage.backward_flop)),
                    ms(stage.forward_s), forward[0], forward[1],
                    has_data ? ms(stage.backward_s - stage.backward_weights_s) : "-",
                    is_conv ? ms(stage.backward_weights_s) : "-", backward[0], backward[1]});
  }
  return format_table(rows);
}

nlohmann::json stage_json(const Network& network, std::int64_t micro_batches, double peak_gflops) {
  nlohmann::json stages = nlohmann::json::array();
  const double count = static_cast<double>(std::max<std::int64_t>(1, micro_batches));
  for (const StageReport& stage : network.report()) {
    const double forward = stage.forward_s / count, backward = stage.backward_s / count;
    const double seconds = forward + backward, flop = stage.forward_flop + stage.backward_flop;
    stages.push_back({{"stage", stage.name},
                      {"kind", name_of(stage.kind)},
                      {"forward", stage.forward},
                      {"backward_data", stage.backward_data},
                      {"backward_weights", stage.backward_weights},
                      {"forward_ms", 1e3 * forward},
                      {"backward_ms", 1e3 * backward},
                      {"backward_weights_ms", 1e3 * stage.backward_weights_s / count},
                      {"forward_flop", stage.forward_flop},
                      {"backward_flop", stage.backward_flop},
                      {"gflops", seconds > 0 ? 1e-9 * flop / seconds : 0},
                      {"share_of_peak", seconds > 0 && peak_gflops > 0 ? 1e-9 * flop / seconds / peak_gflops : 0}});
  }
  return stages;
}

std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

std::string describe_arena(const Network& network) {
  return fmt::format("arena: {}, {} of it on huge pages", format_bytes(network.arena_bytes()),
                     format_bytes(network.arena_huge_page_bytes()));
}

std::string format_bytes(std::size_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.3f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += c == 0 ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

}  // namespace petaflow
