#include "report/performance_tables.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/page.hpp"
#include "report/rank_timeline.hpp"

namespace petaflow {
namespace {

using Row = std::vector<std::string>;

constexpr const char* kPartTones[] = {"s6", "s1", "s4", "s2", "s5", "s3", "s7", "s8"};

double seconds_of(const nlohmann::json& parts, const std::string& name) {
  for (const nlohmann::json& part : parts) {
    if (part.value("part", "") == name) return part.value("seconds", 0.0);
  }
  return 0;
}

std::string percent(double part, double whole, int decimals = 0) {
  return whole > 0 ? fmt::format("{:.{}f} %", 100 * part / whole, decimals) : "–";
}

std::string bar(const nlohmann::json& parts) {
  double total = 0;
  for (const nlohmann::json& part : parts) total += part.value("seconds", 0.0);
  if (!(total > 0)) return "";
  std::string html = "<div class=\"bar\">";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double share = parts[i].value("seconds", 0.0) / total;
    const std::string text = percent(share, 1);
    html += fmt::format("<span class=\"{}\" style=\"flex:{:.4f}\" title=\"{} {}\">{}</span>", kPartTones[i % 8], share,
                        html_escape(parts[i].value("part", "")), text,
                        share > 0.07 ? "<b>" + text + "</b>" : std::string());
  }
  return html + "</div>\n";
}

std::string bars(const std::vector<const RunRecord*>& runs) {
  std::vector<LegendEntry> entries;
  const nlohmann::json& parts = runs[0]->performance.at("time");
  for (std::size_t i = 0; i < parts.size(); ++i)
    entries.push_back({parts[i].value("part", ""), kPartTones[i % 8], "block"});
  std::string html = legend_html(entries);
  for (const RunRecord* run : runs) {
    if (runs.size() > 1) html += "<div class=\"bar-name\">" + html_escape(run->name) + "</div>\n";
    html += bar(run->performance.at("time"));
  }
  return "<div class=\"wide\">" +
         figure_of(html,
                   "Wall time of the training steps, mean over ranks; validation is not in it. Communication is "
                   "what the backward pass did not hide.") +
         "</div>\n";
}

/// Two decimals; what is less but something is said to be.
std::string gflop(double flop) {
  if (!(flop > 0)) return "–";
  return flop < 5e6 ? "&lt; 0.01" : grouped(1e-9 * flop, 2);
}

std::string rate(double flop, double ms) { return flop > 0 && ms > 0 ? grouped(1e-6 * flop / ms, 1) : "–"; }

std::string category_table(const std::vector<const RunRecord*>& runs) {
  const std::string source =
      "Work of one step on rank 0 by category. A convolution's time includes what is fused into it: bias, pooling, "
      "activation, dropout. Flop are 2 per multiply-add of the definition; where Winograd's transforms save some, "
      "rates may exceed the peak, which is that of multiply-adds in registers, in the precision of the run, on the "
      "threads of the rank";
  if (runs.size() == 1) {
    const nlohmann::json& performance = runs[0]->performance;
    const double peak = performance.value("peak_gflops_per_rank", 0.0);
    std::vector<Row> rows = {{"category", "ms", "share", "GFLOP", "GFLOP/s", "of peak"}};
    WorkCategory sum{"step", 0, 0};
    const std::vector<WorkCategory> categories = work_categories(performance);
    for (const WorkCategory& category : categories) sum.ms += category.ms, sum.flop += category.flop;
    const auto add = [&](const WorkCategory& c) {
      rows.push_back({html_escape(c.name), grouped(c.ms, 2), percent(c.ms, sum.ms, 1), gflop(c.flop),
                      rate(c.flop, c.ms), c.flop > 0 ? percent(1e-6 * c.flop / c.ms, peak) : "–"});
    };
    for (const WorkCategory& category : categories) add(category);
    add(sum);
    return table(rows, fmt::format("{}, {} GFLOP/s here.", source, grouped(peak)), "full sum");
  }
  std::vector<Row> rows = {{"category"}};
  std::vector<std::string> names;
  for (const RunRecord* run : runs) {
    rows[0].push_back(html_escape(run->name) + "<br>ms");
    rows[0].emplace_back("of peak");
    for (const WorkCategory& category : work_categories(run->performance)) {
      if (std::ranges::find(names, category.name) == names.end()) names.push_back(category.name);
    }
  }
  for (const std::string& name : names) {
    Row row = {html_escape(name)};
    for (const RunRecord* run : runs) {
      const std::vector<WorkCategory> categories = work_categories(run->performance);
      const auto found = std::ranges::find(categories, name, &WorkCategory::name);
      const bool there = found != categories.end();
      row.push_back(there ? grouped(found->ms, 2) : "–");
      row.push_back(there && found->flop > 0
                        ? percent(1e-6 * found->flop / found->ms, run->performance.value("peak_gflops_per_rank", 0.0))
                        : "–");
    }
    rows.push_back(row);
  }
  return table(rows, source + ".", "full");
}

std::string stages_table(const nlohmann::json& performance) {
  const double peak = performance.value("peak_gflops_per_rank", 0.0);
  std::vector<Row> rows = {{"stage", "GFLOP", "forward ms", "of peak", "data ms", "of peak", "weights ms", "of peak"}};
  for (const nlohmann::json& stage : performance.value("stages", nlohmann::json::array())) {
    const double forward = stage.value("forward_ms", 0.0), backward = stage.value("backward_ms", 0.0);
    const bool is_conv = stage.value("kind", "") == "convolution";
    const double weights = is_conv ? stage.value("backward_weights_ms", 0.0) : 0;
    const double flop = stage.value("forward_flop", 0.0), back_flop = stage.value("backward_flop", 0.0);
    const auto share = [&](double of_flop, double ms) {
      return of_flop > 0 && ms > 0 ? percent(1e-6 * of_flop / ms, peak) : "–";
    };
    const std::string name = html_escape(stage.value("stage", "")),
                      implementation = html_escape(stage.value("forward", ""));
    rows.push_back({name + "<small>" + implementation + "</small>", gflop(flop + back_flop), grouped(forward, 2),
                    share(flop, forward), grouped(backward - weights, 2),
                    share(is_conv ? back_flop - flop : back_flop, backward - weights),
                    is_conv ? grouped(weights, 2) : "–", is_conv ? share(flop, weights) : "–"});
  }
  return table(rows,
               fmt::format("Stages of a micro-batch of {} samples on rank 0. Data and weights are the halves of the "
                           "backward pass; where they are not kept apart, data stands for both.",
                           performance.value("pass", std::int64_t{0})),
               "full");
}

/// Empty where there were no servers.
std::string staleness_table(const nlohmann::json& performance) {
  constexpr std::size_t kColumns = 8;  // the last one holds the rest
  const nlohmann::json layers = performance.value("staleness", nlohmann::json::array());
  if (layers.empty()) return "";
  std::size_t columns = 1;
  for (const nlohmann::json& layer : layers) columns = std::max(columns, layer.at("gradients").size());
  const bool rest = columns > kColumns;
  columns = std::min(columns, kColumns);
  std::vector<Row> rows = {{"layer", "gradients", "queue", "mean"}};
  for (std::size_t c = 0; c < columns; ++c) {
    rows[0].push_back(std::to_string(c) + (rest && c + 1 == columns ? " or more" : ""));
  }
  for (const nlohmann::json& layer : layers) {
    const auto counts = layer.at("gradients").get<std::vector<double>>();
    std::vector<double> shown(columns);
    double sum = 0, gradients = 0;
    for (std::size_t staleness = 0; staleness < counts.size(); ++staleness) {
      gradients += counts[staleness];
      sum += static_cast<double>(staleness) * counts[staleness];
      shown[std::min(staleness, columns - 1)] += counts[staleness];
    }
    Row row = {html_escape(layer.at("layer").get<std::string>()), grouped(gradients),
               fmt::format("{}<small>{} at most</small>", grouped(layer.value("queue_mean", 0.0), 2),
                           layer.value("queue_most", std::int64_t{0})),
               grouped(sum / std::max(1.0, gradients), 2)};
    for (const double count : shown) row.push_back(percent(count, gradients));
    rows.push_back(row);
  }
  std::string steps;
  for (const nlohmann::json& count : performance.value("group_steps", nlohmann::json::array())) {
    steps += fmt::format("{}{}", steps.empty() ? "" : ", ", grouped(count.get<double>()));
  }
  return table(rows,
               "Staleness of the gradients that servers took: updates by other groups between the weights that a "
               "gradient is of and those that it changed. Queue: gradients that were at the server when one of the "
               "layer was applied, itself too. Steps of the groups: " +
                   steps + ".",
               "full");
}

/// Empty where there were no servers.
std::string pushes_table(const nlohmann::json& pushes) {
  if (pushes.empty()) return "";
  std::vector<Row> rows = {{"layer", "pushes", "MiB", "MB/s", "ms under way", "ms waited for", "hidden"}};
  for (const nlohmann::json& layer : pushes) {
    const double under_way = layer.value("under_way_ms", 0.0), waited = layer.value("waited_ms", 0.0);
    rows.push_back({html_escape(layer.value("layer", "")), grouped(layer.value("pushes", 0.0)),
                    grouped(layer.value("sent_bytes", 0.0) / (1 << 20), 2), grouped(layer.value("mb_per_s", 0.0)),
                    grouped(under_way, 2), grouped(waited, 2), percent(under_way - waited, under_way)});
  }
  return table(rows,
               "Gradients that went to servers, mean of all pushes of all groups. A push is under way until its sender "
               "sees that the weights that answer it are there, the time of other groups' updates included; waited "
               "for: where the sender did nothing but wait for servers. MiB: of the gradient, and as many of the "
               "weights; MB/s: both, by the time under way.",
               "full");
}

/// Empty where nothing was sent.
std::string communication_tables(const nlohmann::json& performance) {
  const nlohmann::json communication = performance.value("communication", nlohmann::json::object());
  const nlohmann::json buckets = communication.value("buckets", nlohmann::json::array());
  std::string html;
  if (!buckets.empty()) {
    std::vector<Row> rows = {{"bucket", "MiB", "summed by", "MB/s", "ms under way", "ms waited for", "hidden"}};
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const nlohmann::json& bucket = buckets[i];
      const double under_way = bucket.value("under_way_ms", 0.0), waited = bucket.value("waited_ms", 0.0);
      const double rate = bucket.value("mb_per_s", 0.0);
      rows.push_back({std::to_string(i + 1), grouped(bucket.value("elements", 0.0) / (1 << 18), 2),
                      html_escape(bucket.value("reduction", "")), rate > 0 ? grouped(rate) : "–", grouped(under_way, 2),
                      grouped(waited, 2), percent(under_way - waited, under_way)});
    }
    html +=
        table(rows,
              "Sums of gradients over ranks, in the order in which they start, mean of all steps on rank 0. A sum "
              "is under way until the rank sees that it is over, and waited for where it does nothing meanwhile but "
              "wait for messages, of this sum or others; the rest is hidden. MB/s: bytes that it sent, by the time "
              "under way.",
              "full");
  }
  html += pushes_table(communication.value("pushes", nlohmann::json::array()));
  constexpr std::size_t kMost = 64;  // ranks shown
  const nlohmann::json ranks = communication.value("ranks", nlohmann::json::array());
  std::vector<Row> rows = {{"rank", "waited s", "most of it for"}};
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i) {
    double seconds = 0;
    std::string whom;
    for (const nlohmann::json& wait : ranks[i].at("waited")) {
      seconds += wait.value("seconds", 0.0);
      whom += fmt::format("{}{} ({})", whom.empty() ? "" : ", ", html_escape(wait.value("for", "")),
                          grouped(wait.value("seconds", 0.0), 2));
    }
    if (!whom.empty()) rows.push_back({std::to_string(i), grouped(seconds, 2), whom});
  }
  if (rows.size() > 1) {
    html += table(rows,
                  "Time in which ranks did nothing but wait, and for whom: a rank that came later than all others to "
                  "where they agree, or one whose message was under way; all: messages of sums whose medium does not "
                  "name who sends them, such as MPI's own.",
                  "full");
  }
  return html;
}

}  // namespace

std::vector<WorkCategory> work_categories(const nlohmann::json& performance) {
  const double micro_batches = performance.value("passes_per_step", 1.0);
  const double steps = std::max(1.0, performance.value("own_steps", performance.value("steps", 1.0)));
  WorkCategory forward{"convolutions, forward"}, data{"convolutions, gradient of data"},
      weights{"convolutions, gradient of weights"}, dense{"dense layers"}, pointwise{"other layers"};
  double stages_ms = 0;
  for (const nlohmann::json& stage : performance.value("stages", nlohmann::json::array())) {
    const double forward_ms = micro_batches * stage.value("forward_ms", 0.0),
                 backward_ms = micro_batches * stage.value("backward_ms", 0.0);
    const double flop = micro_batches * stage.value("forward_flop", 0.0),
                 back_flop = micro_batches * stage.value("backward_flop", 0.0);
    stages_ms += forward_ms + backward_ms;
    if (stage.value("kind", "") == "convolution") {
      const double weights_ms = micro_batches * stage.value("backward_weights_ms", 0.0);
      forward.ms += forward_ms;
      forward.flop += flop;
      weights.ms += weights_ms;
      weights.flop += flop;
      data.ms += backward_ms - weights_ms;
      data.flop += back_flop - flop;
    } else {
      WorkCategory& category = stage.value("kind", "") == "dense" ? dense : pointwise;
      category.ms += forward_ms + backward_ms;
      category.flop += flop + back_flop;
    }
  }
  const nlohmann::json parts = performance.value("time_of_rank_0", nlohmann::json::array());
  const auto part_ms = [&](const char* name) { return 1e3 * seconds_of(parts, name) / steps; };
  const WorkCategory rest{"loss, copies and launches",
                          std::max(0.0, part_ms("forward") + part_ms("backward") - stages_ms)};
  std::vector<WorkCategory> all = {forward,
                                   data,
                                   weights,
                                   dense,
                                   pointwise,
                                   rest,
                                   {"optimizer", part_ms("optimizer")},
                                   {"communication", part_ms("communication")},
                                   {"input", part_ms("input")}};
  std::erase_if(all, [](const WorkCategory& category) { return category.ms <= 0 && category.flop <= 0; });
  return all;
}

std::string sustained_text(const nlohmann::json& performance) {
  const double gflops = number_at(performance, "gflops");
  const double share = gflops / (number_at(performance, "peak_gflops_per_rank") * number_at(performance, "ranks"));
  return share > 1 ? fmt::format(
                         "{} GFLOP/s of direct convolutions, {:.2f} x what multiply-adds reach (Winograd's "
                         "transforms need fewer)",
                         readable(gflops, 3), share)
                   : fmt::format("{} GFLOP/s, {:.0f} % of peak", readable(gflops, 3), 100 * share);
}

std::string performance_section(const std::vector<RunRecord>& runs) {
  std::vector<const RunRecord*> ended;
  for (const RunRecord& run : runs) {
    if (run.finished() && run.performance.value("steps", std::int64_t{0}) > 0) ended.push_back(&run);
  }
  if (ended.empty()) return "";
  std::string html;
  if (runs.size() == 1) {
    const nlohmann::json& p = ended[0]->performance;
    html = fmt::format(
        "<p>{} weights, {} GFLOP per sample (forward and backward). Sustained over all ranks: {}; at best {} GFLOP/s "
        "between two lines of the log. Memory of rank 0: at most {} MiB, {} of them for activations and scratch.</p>\n",
        grouped(p.value("parameters", 0.0)), readable(1e-9 * p.value("flop_per_sample", 0.0), 3),
        html_escape(sustained_text(p)), readable(p.value("best_gflops", 0.0), 3),
        grouped(p.value("peak_resident_bytes", 0.0) / (1 << 20)), grouped(p.value("arena_bytes", 0.0) / (1 << 20)));
  }
  html += bars(ended) + category_table(ended);
  if (runs.size() == 1) {
    html += stages_table(ended[0]->performance) + rank_timeline(ended[0]->trace) +
            communication_tables(ended[0]->performance) + staleness_table(ended[0]->performance);
  }
  return html;
}

}  // namespace petaflow
