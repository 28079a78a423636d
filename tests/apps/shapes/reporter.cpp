#include "shapes/reporter.hpp"

#include "report/comparison.hpp"
#include "report/evaluated_runs.hpp"
#include "report/html.hpp"
#include "report/metric_json.hpp"
#include "shapes/evaluator.hpp"

namespace petaflow::shapes {
namespace {

const ShapesEvaluator& of_shapes(const Evaluator& evaluator) { return dynamic_cast<const ShapesEvaluator&>(evaluator); }

std::string class_name(std::size_t c) { return c == 0 ? "background" : kKinds.at(c - 1); }

}  // namespace

std::string ShapesReporter::table(const Evaluator& evaluator) const {
  const ShapesEvaluator& shapes = of_shapes(evaluator);
  std::string text = fmt::format("accuracy of the kind      {}\nintersection over union   {}\n",
                                 to_string(shapes.accuracy(), 4), to_string(shapes.iou(), 4));
  for (std::size_t c = 0; c < shapes.iou_of_class().size(); ++c) {
    text += fmt::format("  {:<24}{}\n", class_name(c), to_string(shapes.iou_of_class()[c], 4));
  }
  return text;
}

nlohmann::json ShapesReporter::results(const Evaluator& evaluator) const {
  const ShapesEvaluator& shapes = of_shapes(evaluator);
  nlohmann::json json;
  put(json, "iou", shapes.iou());
  put(json, "accuracy", shapes.accuracy());
  for (std::size_t c = 0; c < shapes.iou_of_class().size(); ++c) {
    put(json, "iou_" + class_name(c), shapes.iou_of_class()[c]);
  }
  return json;
}

std::vector<KeyNumber> ShapesReporter::key_numbers(const RunRecord& run) const {
  const nlohmann::json* results = evaluation_part(run, "results");
  if (results == nullptr) return {};
  const Metric iou = metric_at(*results, "iou");
  if (!iou.value) return {};
  return {{"intersection over union", grouped(*iou.value, 3), evaluated_set(run)}};
}

void ShapesReporter::add_sections(Page& page, const std::vector<RunRecord>& runs) const {
  const std::vector<EvaluatedRun> evaluated = evaluated_runs(runs);
  if (evaluated.empty()) return;
  std::vector<std::string> names;
  for (const EvaluatedRun& one : evaluated) names.push_back(html_escape(one.run->name));
  ComparisonRows rows(names);
  const auto add = [&](const std::string& what, const std::string& metric) {
    std::vector<std::string> cells;
    for (const EvaluatedRun& one : evaluated) cells.push_back(with_error(metric_at(one.results(), metric)));
    rows.add(what, cells);
  };
  add("accuracy of the kind", "accuracy");
  add("intersection over union", "iou");
  for (std::size_t c = 0; c < kMapClasses; ++c) add("of " + class_name(c), "iou_" + class_name(c));
  const auto no_more = [](const nlohmann::json&) { return std::string(); };
  page.section("Result", evaluated_sets(evaluated, "images", no_more) +
                             petaflow::table(rows.rows(), "Kinds of shapes, and the pixels that they cover."));
}

}  // namespace petaflow::shapes
