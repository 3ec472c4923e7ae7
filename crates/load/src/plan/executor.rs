//! Parser of the executor of a scenario. Its keys have k6's names.

use std::path::Path;
use std::time::Duration;

use lucarne_settings::values::ValueError;
use lucarne_settings::{Located, Node, Reader, Report, Section, Value, nearest, values};

use super::arithmetic::{ArithmeticError, Worth, work_out};
use crate::ExecutorConfig;
use crate::executor::{ArrivalRateOptions, Arrivals, MOST_PER_SECOND, Rate, Stage};

/// Names of the executors.
pub const EXECUTORS: &[&str] = &[
    "constant-arrival-rate",
    "ramping-arrival-rate",
    "constant-vus",
    "ramping-vus",
];

/// Keys of all executors.
pub(super) const KEYS: &[&str] = &[
    "rate",
    "timeUnit",
    "duration",
    "stages",
    "startRate",
    "startVUs",
    "vus",
    "preAllocatedVUs",
    "maxVUs",
    "iterations",
    "minAchieved",
    "maxStartDelay",
    "arrivals",
];

/// Keys of both executors by rate.
const OPEN: &[&str] = &[
    "timeUnit",
    "preAllocatedVUs",
    "maxVUs",
    "iterations",
    "minAchieved",
    "maxStartDelay",
    "arrivals",
];

/// Other executors of k6, and their replacements.
const FOREIGN: &[(&str, &str)] = &[
    (
        "shared-iterations",
        "is not supported: write `constant-vus` with `iterations`",
    ),
    (
        "per-vu-iterations",
        "is not supported: write `constant-vus` with `iterations`",
    ),
    (
        "externally-controlled",
        "is not needed: the keys of the live view change every executor",
    ),
];

/// Limit of events per time unit, and of users: larger values are typing errors.
const MOST: f64 = MOST_PER_SECOND;

/// Parses the executor of a scenario.
pub(super) fn read(reader: &mut Reader<'_, '_>) -> Option<ExecutorConfig> {
    let executor = reader.parse("executor", executor);
    let executor = reader.required("executor", executor, EXECUTORS[0])?;
    let (own, options): (&[&str], _) = match executor.value {
        "constant-arrival-rate" => (&["rate", "duration"], OPEN),
        "ramping-arrival-rate" => (&["startRate", "stages"], OPEN),
        "constant-vus" => (&["vus", "duration", "iterations"], &[][..]),
        _ => (&["startVUs", "stages", "iterations"], &[][..]),
    };
    refuse_others(reader, executor.value, &[own, options].concat());
    match executor.value {
        "constant-arrival-rate" => constant_rate(reader),
        "ramping-arrival-rate" => ramping_rate(reader),
        "constant-vus" => constant_users(reader),
        _ => ramping_users(reader),
    }
}

/// Reasons why a text does not name an executor. The message follows the text.
#[derive(Debug, thiserror::Error)]
enum UnknownExecutor {
    #[error("{0}")]
    Foreign(&'static str),
    #[error("is not a known executor; did you mean `{0}`?")]
    Near(&'static str),
    #[error("is not a known executor; expected one of {}", EXECUTORS.join(", "))]
    Far,
}

fn executor(text: &str) -> Result<&'static str, UnknownExecutor> {
    if let Some((_, advice)) = FOREIGN.iter().find(|(foreign, _)| *foreign == text) {
        return Err(UnknownExecutor::Foreign(advice));
    }
    let found = EXECUTORS.iter().find(|executor| **executor == text);
    found
        .copied()
        .ok_or_else(|| match nearest(text, EXECUTORS) {
            Some(near) => UnknownExecutor::Near(near),
            None => UnknownExecutor::Far,
        })
}

/// Refuses keys of other executors, which would be ignored silently.
fn refuse_others(reader: &mut Reader<'_, '_>, executor: &str, own: &[&str]) {
    for key in KEYS.iter().filter(|key| !own.contains(key)) {
        if let Some(node) = reader.node(key) {
            let own = own.join(", ");
            let message = format!("does nothing with `{executor}`, which takes {own}");
            reader.problem(Some(node.line), key, message);
        }
    }
}

fn constant_rate(reader: &mut Reader<'_, '_>) -> Option<ExecutorConfig> {
    let rate = reader.parse("rate", |text| positive(worth(text)?));
    let rate = reader.required("rate", rate, "500");
    let per = time_unit(reader);
    let options = options(reader);
    let rate = rate.and_then(|rate| in_unit(reader, "rate", rate, per?));
    let duration = reader.parse("duration", values::length);
    let duration = match options.iterations {
        Some(_) => duration,
        None => reader.required("duration", duration, "60s"),
    };
    let rate = rate?;
    let duration = match duration {
        Some(duration) => duration.value,
        None => rate.time_of(options.iterations?)?,
    };
    Some(ExecutorConfig::ConstantArrivalRate {
        rate,
        duration,
        options,
    })
}

fn ramping_rate(reader: &mut Reader<'_, '_>) -> Option<ExecutorConfig> {
    let start = reader.parse("startRate", worth);
    let per = time_unit(reader);
    let options = options(reader);
    let stages = stages(reader, Some(per.unwrap_or(Duration::from_secs(1))));
    let per = per?;
    let start = match start {
        Some(start) => in_unit(reader, "startRate", start, per)?,
        None => Rate { count: 0.0, per },
    };
    // Start rate and targets are in the scenario's unit.
    let count = start.as_per_second() * per.as_secs_f64();
    Some(ExecutorConfig::RampingArrivalRate {
        start: Rate { count, per },
        stages: stages?,
        options,
    })
}

fn constant_users(reader: &mut Reader<'_, '_>) -> Option<ExecutorConfig> {
    let users = reader.parse("vus", values::number(1, MOST as u64, "users"));
    let iterations = goal(reader);
    let duration = reader.parse("duration", values::length);
    let duration = reader.required("duration", duration, "60s");
    Some(ExecutorConfig::ConstantVus {
        vus: users.map_or(1, |users| users.value),
        duration: duration?.value,
        iterations,
    })
}

fn ramping_users(reader: &mut Reader<'_, '_>) -> Option<ExecutorConfig> {
    let start = reader.parse("startVUs", values::number(0, MOST as u64, "users"));
    let iterations = goal(reader);
    Some(ExecutorConfig::RampingVus {
        start: start.map_or(1, |start| start.value),
        stages: stages(reader, None)?,
        iterations,
    })
}

fn options(reader: &mut Reader<'_, '_>) -> ArrivalRateOptions {
    let mut options = ArrivalRateOptions::default();
    let users = values::number(0, MOST as u64, "users");
    if let Some(users) = reader.parse("preAllocatedVUs", &users) {
        options.pre_allocated_vus = users.value;
        options.max_vus = options.max_vus.max(users.value);
    }
    if let Some(users) = reader.parse("maxVUs", &users) {
        if users.value < options.pre_allocated_vus.max(1) {
            let message = "must be at least 1, and at least `preAllocatedVUs`";
            reader.problem(users.line, "maxVUs", message);
        }
        options.max_vus = users.value;
    }
    options.iterations = goal(reader);
    if let Some(part) = reader.parse("minAchieved", values::decimal(0.0, 1.0)) {
        options.min_achieved = part.value;
    }
    if let Some(delay) = reader.parse("maxStartDelay", values::duration) {
        options.max_start_delay = delay.value;
    }
    if let Some(arrivals) = reader.parse("arrivals", arrivals) {
        options.arrivals = arrivals.value;
    }
    options
}

/// The text does not name the distances between arrivals. The message follows the text.
#[derive(Debug, thiserror::Error)]
#[error("must be `even` or `poisson`")]
struct UnknownArrivals;

fn arrivals(text: &str) -> Result<Arrivals, UnknownArrivals> {
    match text {
        "even" => Ok(Arrivals::Even),
        "poisson" => Ok(Arrivals::Poisson),
        _ => Err(UnknownArrivals),
    }
}

fn goal(reader: &mut Reader<'_, '_>) -> Option<u64> {
    let goal = reader.parse("iterations", values::number(1, u64::MAX, "iterations"));
    goal.map(|goal| goal.value)
}

fn time_unit(reader: &mut Reader<'_, '_>) -> Option<Duration> {
    if reader.has("timeUnit") {
        reader
            .parse("timeUnit", values::length)
            .map(|unit| unit.value)
    } else {
        Some(Duration::from_secs(1))
    }
}

/// Reasons why a text is not a rate. The message follows the text.
#[derive(Debug, thiserror::Error)]
enum RateError {
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Arithmetic(#[from] ArithmeticError),
    #[error("is {0}; expected a rate between 0 and {MOST}")]
    OutOfBounds(f64),
    #[error("must be above 0")]
    Nothing,
    #[error("{DIVIDED}")]
    Divided,
}

/// Error for a complete rate in a scenario with a time unit.
const DIVIDED: &str = "is divided by a time already; leave out `timeUnit`";

/// Parses a rate: a number or an arithmetic expression.
fn worth(text: &str) -> Result<Worth, RateError> {
    let digit = |c: char| c.is_ascii_digit();
    let worth = match values::decimal(0.0, MOST)(text) {
        Ok(number) => return Ok(Worth::Number(number)),
        // A malformed number or word is not an expression, so its own error is reported.
        Err(why) if text.parse::<f64>().is_ok() || !text.contains(digit) => return Err(why.into()),
        Err(_) => work_out(text)?,
    };
    let (Worth::Number(value) | Worth::PerSecond(value)) = worth;
    if (0.0..=MOST).contains(&value) {
        Ok(worth)
    } else {
        Err(RateError::OutOfBounds(value))
    }
}

/// Checks that a rate is above 0.
fn positive(worth: Worth) -> Result<Worth, RateError> {
    match worth {
        Worth::Number(0.0) | Worth::PerSecond(0.0) => Err(RateError::Nothing),
        worth => Ok(worth),
    }
}

/// Applies the scenario's time unit to a plain number. Refuses a time unit for a complete rate.
fn in_unit(
    reader: &mut Reader<'_, '_>,
    key: &str,
    worth: Located<Worth>,
    per: Duration,
) -> Option<Rate> {
    match worth.value {
        Worth::Number(count) => Some(Rate { count, per }),
        Worth::PerSecond(count) if !reader.has("timeUnit") => Some(Rate::per_second(count)),
        Worth::PerSecond(_) => {
            reader.problem(worth.line, key, DIVIDED);
            None
        }
    }
}

/// Parses the list `stages`. At least one stage must take time. Targets are rates in this unit;
/// without a unit, targets are numbers of users.
fn stages(reader: &mut Reader<'_, '_>, unit: Option<Duration>) -> Option<Vec<Stage>> {
    let Some(node) = reader.node("stages") else {
        let example = "[{ duration: 30s, target: 500 }]";
        reader.required("stages", None::<Located<()>>, example);
        return None;
    };
    let Value::List(items) = &node.value else {
        let message = "must be a list: one `- { duration: 30s, target: 500 }` for each stage";
        reader.problem(Some(node.line), "stages", message);
        return None;
    };
    let path = reader.path_of("stages");
    let own = reader.has("timeUnit");
    let read = |(index, item)| {
        let path = format!("{path}[{index}]");
        stage(item, &path, unit, own, reader.report())
    };
    let stages: Vec<_> = items.iter().enumerate().map(read).collect();
    let stages = stages.into_iter().collect::<Option<Vec<Stage>>>()?;
    if stages.iter().all(|stage| stage.duration.is_zero()) {
        reader.problem(
            Some(node.line),
            "stages",
            "must last longer than zero in total",
        );
        return None;
    }
    Some(stages)
}

fn stage(
    node: &Node,
    path: &str,
    unit: Option<Duration>,
    own_unit: bool,
    report: &mut Report,
) -> Option<Stage> {
    let section = Section::open(node, path, &["duration", "target"], report)?;
    let mut reader = Reader::new(section, path, Path::new(""), report);
    let duration = reader.parse("duration", values::duration);
    let duration = reader.required("duration", duration, "30s");
    let target = reader.parse("target", |text| match unit {
        None => Ok(values::decimal(0.0, MOST)(text)?),
        Some(unit) => match worth(text)? {
            Worth::Number(target) => Ok(target),
            Worth::PerSecond(_) if own_unit => Err(RateError::Divided),
            Worth::PerSecond(target) => Ok(target * unit.as_secs_f64()),
        },
    });
    let target = reader.required("target", target, "500");
    Some(Stage {
        duration: duration?.value,
        target: target?.value,
    })
}
