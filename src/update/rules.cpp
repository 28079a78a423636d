// The list of optimizer rules: a new one is a file rule_<name>.cpp, which defines make_<name>(), and a line here.
#include "base/error.hpp"
#include "update/rule.hpp"

#define PETAFLOW_RULES(RULE) \
  RULE(adam)                 \
  RULE(adamw)                \
  RULE(lamb)                 \
  RULE(sgd)                  \
  RULE(yellowfin)

namespace petaflow {

#define RULE(name) std::unique_ptr<OptimizerRule> make_##name(const OptimizerOptions& options);
PETAFLOW_RULES(RULE)
#undef RULE

std::unique_ptr<OptimizerRule> make_rule(const OptimizerOptions& options) {
#define RULE(rule) \
  if (options.name == #rule) return make_##rule(options);
  PETAFLOW_RULES(RULE)
#undef RULE
  user_error("there is no optimizer \"{}\"", options.name);
}

std::vector<std::string> rule_names() {
#define RULE(name) #name,
  return {PETAFLOW_RULES(RULE)};
#undef RULE
}

std::vector<std::string> rule_names(const std::function<bool(const OptimizerRule&)>& holds) {
  std::vector<std::string> names = rule_names();
  std::erase_if(names, [&](const std::string& name) { return !holds(*make_rule({.name = name})); });
  return names;
}

}  // namespace petaflow
