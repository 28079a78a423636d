#include "report/reporter.hpp"

#include <nlohmann/json.hpp>

#include "report/run_record.hpp"

namespace petaflow {

nlohmann::json Reporter::curves(const Evaluator& /*evaluator*/) const { return nlohmann::json::object(); }
std::vector<KeyNumber> Reporter::key_numbers(const RunRecord& /*run*/) const { return {}; }
void Reporter::add_sections(Page& /*page*/, const std::vector<RunRecord>& /*runs*/) const {}

}  // namespace petaflow
