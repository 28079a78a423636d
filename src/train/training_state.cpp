#include "train/training_state.hpp"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace petaflow {
namespace {

nlohmann::json to_json(const NoiseEstimate& noise) { return {noise.gradient, noise.covariance}; }
NoiseEstimate noise_from(const nlohmann::json& json) { return {json.at(0).get<double>(), json.at(1).get<double>()}; }

nlohmann::json to_json(const LossScaleState& state) { return {state.scale, state.steps, state.skipped}; }
LossScaleState loss_scale_from(const nlohmann::json& json) {
  return {json.at(0).get<double>(), json.at(1).get<std::int64_t>(), json.at(2).get<std::int64_t>()};
}

nlohmann::json to_json(const GroupTrial& trial) { return {trial.groups, trial.momentum, trial.rate, trial.loss}; }
GroupTrial trial_from(const nlohmann::json& json) {  // infinity is null
  return {json.at(0).get<std::int64_t>(), json.at(1).get<double>(), json.at(2).get<double>(),
          json.at(3).is_null() ? INFINITY : json.at(3).get<double>()};
}

}  // namespace

std::string to_text(const TrainingState& state) {
  nlohmann::json json = {{"step", state.step},
                         {"epoch", state.epoch},
                         {"epoch_step", state.epoch_step},
                         {"validation_due", state.validation_due},
                         {"steps_per_epoch", state.steps_per_epoch},
                         {"ended", state.ended},
                         {"since_best", state.since_best},
                         {"loss", state.loss},
                         {"interval_steps", state.interval_steps},
                         {"interval_loss", state.interval_loss}};
  if (state.best) json["best"] = *state.best;
  if (state.best_kept) json["best_kept"] = true;
  for (const LaggedStep& step : state.lagged) {
    json["lagged"].push_back(step.loss);
    if (step.noise) json["lagged_noise"].push_back(to_json(*step.noise));
    if (state.loss_scale) json["lagged_scale"].push_back(step.scale);
  }
  if (state.loss_scale) json["loss_scale"] = to_json(*state.loss_scale);
  if (state.noise) json["noise"] = to_json(state.noise->mean);
  if (state.search) {
    nlohmann::json& search = json["search"];
    search["settings"] = to_json(state.search->settings());
    search["epoch"] = state.search_epoch;
    for (const GroupTrial& trial : state.search->tried()) search["tried"].push_back(to_json(trial));
  }
  return json.dump();
}

TrainingState state_from_text(const std::string& text, const std::string& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    TrainingState state;
    json.at("step").get_to(state.step);
    json.at("epoch").get_to(state.epoch);
    json.at("epoch_step").get_to(state.epoch_step);
    json.at("validation_due").get_to(state.validation_due);
    json.at("steps_per_epoch").get_to(state.steps_per_epoch);
    json.at("ended").get_to(state.ended);
    json.at("since_best").get_to(state.since_best);
    json.at("loss").get_to(state.loss);
    json.at("interval_steps").get_to(state.interval_steps);
    json.at("interval_loss").get_to(state.interval_loss);
    if (json.contains("lagged")) {
      for (const double loss : json.at("lagged")) state.lagged.push_back({loss});
    }
    if (json.contains("lagged_noise") && json.at("lagged_noise").size() == state.lagged.size()) {
      for (std::size_t i = 0; i < state.lagged.size(); ++i) state.lagged[i].noise = noise_from(json["lagged_noise"][i]);
    }
    if (json.contains("lagged_scale") && json.at("lagged_scale").size() == state.lagged.size()) {
      for (std::size_t i = 0; i < state.lagged.size(); ++i) json["lagged_scale"][i].get_to(state.lagged[i].scale);
    }
    if (json.contains("loss_scale")) state.loss_scale = loss_scale_from(json.at("loss_scale"));
    if (json.contains("noise")) state.noise = NoiseScale{noise_from(json.at("noise"))};
    if (json.contains("search")) {
      const nlohmann::json& search = json.at("search");
      std::vector<GroupTrial> tried;
      for (const nlohmann::json& trial : search.value("tried", nlohmann::json::array())) {
        tried.push_back(trial_from(trial));
      }
      state.search.emplace(trial_from(search.at("settings")), std::move(tried));
      search.at("epoch").get_to(state.search_epoch);
    }
    state.best_kept = json.contains("best_kept");
    if (json.contains("best")) state.best = json.at("best").get<double>();
    return state;
  } catch (const nlohmann::json::exception& error) {
    user_error("{}: the state of the training cannot be read: {}", path, error.what());
  }
}

}  // namespace petaflow
