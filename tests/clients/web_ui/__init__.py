"""A package, unlike the folders beside it: fixtures of the scope `package` live as long as its tests run one after the
other in a worker. A whole session would be too long: Playwright keeps a loop in its thread, beside which no test may
run one of its own."""
