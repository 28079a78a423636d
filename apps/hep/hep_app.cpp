#include "hep/hep_app.hpp"

#include <nlohmann/json.hpp>

#include "data/bytes.hpp"
#include "data/files.hpp"
#include "hep/evaluation_table.hpp"
#include "hep/generate.hpp"
#include "io/log.hpp"
#include "train/agree.hpp"
#include "train/classification.hpp"
#include "train/generated_files.hpp"

namespace petaflow::hep {
namespace {

const HepData& as_hep(const Dataset& data) { return dynamic_cast<const HepData&>(data); }

// Where phi runs in the images, as data.phi_axis has it.
std::string phi_axis(const HepData& data) { return data.phi_axis() == ImageAxis::kW ? "columns" : "rows"; }

/// Log-odds of signal, which a float softmax would round to 1.
std::vector<float> log_odds(const Predictions& predictions) {
  std::vector<float> scores(static_cast<std::size_t>(predictions.count));
  for (std::size_t i = 0; i < scores.size(); ++i)
    scores[i] = predictions.outputs[2 * i + 1] - predictions.outputs[2 * i];
  return scores;
}

}  // namespace

std::string HepApplication::description() const {
  return "Tells collision events with new physics from background by their calorimeter images (Kurth et al., SC17)";
}

Shape HepApplication::sample_shape() const {
  const DataKeys& data = options_.data;
  return {1, data.channels * std::ssize(data.options.transforms), 1, data.height, data.width};
}

std::unique_ptr<Loss> HepApplication::loss() const { return std::make_unique<SoftmaxLoss>(); }

HepDataOptions HepApplication::data_options(DataRole role) const {
  const DataKeys& data = options_.data;
  HepDataOptions options = data.options;
  options.file.channels = data.channels;
  if (data.crop) options.crop = {data.height, data.width};
  options.maxima.assign(data.maxima.begin(), data.maxima.end());
  options.cache_bytes = static_cast<std::int64_t>(data.cache_gb * (std::int64_t{1} << 30));
  options.labels = role == DataRole::kTrain      ? HepLabels::kBothClasses
                   : role == DataRole::kEvaluate ? HepLabels::kAny
                                                 : HepLabels::kOptional;
  if (role != DataRole::kTrain) options.loss_weight = "none";
  return options;
}

std::string HepApplication::scan(const std::vector<std::string>& files, const std::string& what, DataRole role) const {
  HepIndex index = scan_hep(data_options(role), expand_files(files, what));
  return to_bytes(index);
}

std::unique_ptr<Dataset> HepApplication::open(const std::string& found, const std::string& what, DataRole role) const {
  auto data = std::make_unique<HepData>(data_options(role), from_bytes<HepIndex>(found));
  const std::string axis = phi_axis(*data), &expected = options_.data.phi_axis;
  if (!expected.empty() && axis != expected) {
    user_error("{}: phi runs along the {} of the images in {}, but along the {} in the training set", what, axis,
               data->paths().front(), expected);
  }
  if (options_.model.periodic_width && axis != "columns") {
    user_error("model.periodic_width closes the images in their width, but phi runs along the {} in {}", axis,
               data->paths().front());
  }
  return data;
}

void HepApplication::keep(const Dataset& train) {
  const HepData& data = as_hep(train);
  DataKeys& keys = options_.data;
  keys.phi_axis = phi_axis(data);
  if (keys.options.scale == "max") keys.maxima.assign(data.maxima().begin(), data.maxima().end());
}

std::function<void(std::span<std::byte>, RandomSequence&)> HepApplication::augmentation(const Dataset& train) const {
  AugmentOptions augment = options_.augment;
  if (!augment.roll_phi && !augment.flip_phi && !augment.mirror_eta && augment.energy_jitter == 0) return {};
  const HepData& data = as_hep(train);
  augment.phi = data.phi_axis();
  if (augment.roll_phi && !data.phi_is_whole()) {
    user_error("augment.roll_phi needs images of the whole circle in phi, but data.crop cuts it");
  }
  return DetectorAugment(data.sample_dims(), augment);
}

std::vector<Predictor::View> HepApplication::views(const Dataset& data) const {
  if (!options_.evaluate.mirrors) return {};
  const auto dims = data.sample_dims();
  std::vector<Predictor::View> views;
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      views.emplace_back([=](std::span<std::byte> image) {
        const auto pixels = numbers<float>(image);
        if (first) mirror(pixels, dims, ImageAxis::kH);
        if (second) mirror(pixels, dims, ImageAxis::kW);
      });
    }
  }
  return views;
}

ScoredSet HepApplication::scored(const HepData& data, const Predictions& predictions) const {
  ScoredSet set;
  set.score = log_odds(predictions);
  for (const HepEvent& event : data.events()) {
    set.label.push_back(event.label);
    if (options_.evaluate.weighted && data.has_weights()) set.weight.push_back(event.weight);
  }
  return set;
}

std::string HepApplication::curves(const Dataset& data, const Predictions& predictions) const {
  const HepData& hep = as_hep(data);
  const HepDataOptions& options = options_.data.options;
  const ImageScale scale{options.transforms.front(), options.units.front(), static_cast<double>(hep.maxima().front())};
  return report_curves(hep, scored(hep, predictions), scale).dump();
}

Evaluation HepApplication::evaluate(const CommonOptions& /*options*/, const Dataset& data,
                                    const Predictions& predictions, Depth depth) const {
  const HepData& hep = as_hep(data);
  const bool full = depth == Depth::kFull;
  const ScoredSet set = scored(hep, predictions);
  std::vector<std::uint8_t> selected;
  for (const HepEvent& event : hep.events()) {
    if (full && hep.has_selection()) selected.push_back(event.pass_sr ? 1 : 0);
  }
  ClassificationOptions options;
  options.threshold = 0;  // of log-odds
  options.replicas = full ? static_cast<int>(options_.evaluate.replicas) : 0;
  options.min_background = options_.evaluate.min_background;
  if (!full) options.background_rates.clear();
  const ClassificationReport report = classify(set, options, selected);

  Evaluation evaluation;
  const auto add = [&](const std::string& name, const Metric& metric) {
    if (metric.value) {
      evaluation.metrics.push_back({name, *metric.value, true});
    } else {
      evaluation.undefined[name] = metric.reason;
    }
  };
  add("auc", report.auc);
  add("accuracy", report.accuracy);
  evaluation.table = evaluation_table(report);
  evaluation.json = nlohmann::json(report).dump();
  return evaluation;
}

PredictionRows HepApplication::rows(const Dataset& data, const Predictions& predictions) const {
  const HepData& hep = as_hep(data);
  std::vector<float> score;
  std::vector<std::int32_t> label, file;
  std::vector<std::int64_t> index;
  for (std::size_t i = 0; i < hep.events().size(); ++i) {
    const HepEvent& event = hep.events()[i];
    score.push_back(predictions.scores[2 * i + 1]);
    label.push_back(event.label);
    file.push_back(event.file);
    index.push_back(event.index);
  }
  return {{{"score", score}, {"label", label}, {"file", file}, {"index", index}}, hep.paths(), {}};
}

void HepApplication::generate(const CommonOptions& options, Communicator& comm, bool overwrite) const {
  agree(comm, [&] {
    if (comm.rank() == 0) write_files(options, overwrite);
  });
}

void HepApplication::write_files(const CommonOptions& options, bool overwrite) const {
  const GenerateKeys& keys = options_.generate;
  GeneratorOptions generator = options_.generator;
  if (options_.data.height != options_.data.width) {
    user_error("generate makes square images: data.height is {}, data.width {}", options_.data.height,
               options_.data.width);
  }
  generator.image_size = static_cast<std::size_t>(options_.data.height);
  for (const GeneratedFile& file :
       plan_generated_files(options.data, {keys.train, keys.validation, keys.test}, overwrite)) {
    const EventCounts counts = write_events(file.path, generator, static_cast<std::uint64_t>(keys.seed), file.first,
                                            file.count, static_cast<int>(keys.gzip));
    log_info("{}: {} events, {} of them signal; the cuts pass {} background and {} signal events", file.path,
             file.count, counts.signal, counts.selected_background, counts.selected_signal);
  }
}

}  // namespace petaflow::hep
