//! Search for the highest rate that meets an objective: doubling, then bisection.

/// Largest relative distance between the highest rate that held and the lowest that did not.
const PRECISION: f64 = 1.05;

/// Result of one step at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The objective was met.
    Met,
    /// The objective was not met.
    Missed,
    /// The load generator could not offer the rate in time.
    Limited,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Found {
    /// The highest rate, to 5 %.
    Highest(f64),
    /// The rate met the objective, and was the highest rate of the search.
    AtLeast(f64),
    /// The load generator is the limit. The rate is the highest that met the objective, if any did.
    Generator(Option<f64>),
    /// The lowest rate of the search did not meet the objective.
    Nothing,
}

/// Searches between two rates. `step` offers a rate; an error ends the search.
pub(super) fn search<E>(
    from: f64,
    to: f64,
    mut step: impl FnMut(f64) -> Result<Step, E>,
) -> Result<Found, E> {
    let (mut met, mut missed, mut rate) = (None, None, from);
    loop {
        match confirmed(rate, &mut step)? {
            Step::Limited => return Ok(Found::Generator(met)),
            Step::Met => met = Some(rate),
            Step::Missed => missed = Some(rate),
        }
        rate = match (met, missed) {
            (None, _) => return Ok(Found::Nothing),
            (Some(met), None) if met >= to => return Ok(Found::AtLeast(met)),
            (Some(met), None) => (met * 2.0).min(to),
            (Some(met), Some(missed)) if missed <= met * PRECISION => {
                return Ok(Found::Highest(met));
            }
            (Some(met), Some(missed)) => (met * missed).sqrt(),
        };
    }
}

/// Returns the result of two equal steps out of at most three. Three different results count as a
/// limit of the load generator.
fn confirmed<E>(rate: f64, step: &mut impl FnMut(f64) -> Result<Step, E>) -> Result<Step, E> {
    let first = step(rate)?;
    let second = step(rate)?;
    if first == second {
        return Ok(first);
    }
    let third = step(rate)?;
    Ok(if third == first || third == second {
        third
    } else {
        Step::Limited
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a target with this limit, and counts the steps.
    fn with_limit(limit: f64, from: f64, to: f64) -> (Found, u32) {
        let mut steps = 0;
        let found = search(from, to, |rate| {
            steps += 1;
            Ok::<_, ()>(if rate <= limit {
                Step::Met
            } else {
                Step::Missed
            })
        });
        (found.unwrap(), steps)
    }

    #[test]
    fn the_limit_of_a_target_is_found_to_5_percent() {
        for limit in [100.0, 101.0, 199.0, 200.0, 1000.0, 1234.5, 19_999.0] {
            let (found, steps) = with_limit(limit, 100.0, 20_000.0);
            let Found::Highest(rate) = found else {
                panic!("{limit}: {found:?}");
            };
            assert!(
                rate <= limit && rate * PRECISION >= limit,
                "{limit}: {rate}"
            );
            assert!(steps <= 30, "{limit}: {steps}");
        }
    }

    #[test]
    fn the_ends_of_the_search_are_results() {
        assert_eq!(with_limit(50.0, 100.0, 800.0).0, Found::Nothing);
        assert_eq!(with_limit(1e9, 100.0, 700.0).0, Found::AtLeast(700.0));
        assert_eq!(with_limit(1e9, 100.0, 100.0), (Found::AtLeast(100.0), 2));
    }

    #[test]
    fn one_wrong_step_does_not_change_the_result() {
        let mut steps = 0;
        let found = search(100.0, 20_000.0, |rate| {
            steps += 1;
            let wrong = steps % 4 == 1;
            Ok::<_, ()>(if (rate <= 1000.0) != wrong {
                Step::Met
            } else {
                Step::Missed
            })
        });
        let Ok(Found::Highest(rate)) = found else {
            panic!("{found:?}");
        };
        assert!((950.0..=1000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn two_equal_steps_of_three_are_the_result() {
        let all = [Step::Met, Step::Missed, Step::Limited];
        let triples = all.map(|first| all.map(|second| all.map(|third| [first, second, third])));
        for triple in triples.into_iter().flatten().flatten() {
            let mut steps = triple.into_iter();
            let result = confirmed(1.0, &mut |_| steps.next().ok_or(()));
            let twice = |step: &Step| triple.iter().filter(|it| *it == step).count() > 1;
            let expected = all.into_iter().find(twice).unwrap_or(Step::Limited);
            assert_eq!(result, Ok(expected), "{triple:?}");
        }
    }

    #[test]
    fn a_generator_at_its_limit_ends_the_search() {
        let limited_from = |limit| {
            search(100.0, 20_000.0, |rate| {
                Ok::<_, ()>(if rate < limit {
                    Step::Met
                } else {
                    Step::Limited
                })
            })
        };
        assert_eq!(limited_from(500.0), Ok(Found::Generator(Some(400.0))));
        assert_eq!(limited_from(50.0), Ok(Found::Generator(None)));
        assert_eq!(search(1.0, 2.0, |_| Err("stopped")), Err("stopped"));
    }
}
