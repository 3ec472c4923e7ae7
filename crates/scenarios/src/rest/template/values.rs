//! Generators of template values.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use lucarne_load::{Iteration, Part};
use lucarne_settings::nearest;

use super::TemplateError;
use super::parse::{Call, is_name};
use crate::random::Random;

/// A source of values.
#[derive(Debug)]
pub(super) enum Source {
    Unique,
    Iteration { width: usize },
    User { width: usize },
    Counter { index: usize, range: Range },
    Random(Range),
    Pick(Vec<String>),
    Hex(usize),
    Uuid,
    Now { milliseconds: bool },
    Slot(usize),
}

/// Whole numbers including both ends, and the minimum of digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    from: u64,
    to: u64,
    width: usize,
}

/// Names of the built-in values.
const OWN: [&str; 9] = [
    "unique",
    "iteration",
    "user",
    "counter",
    "random",
    "pick",
    "hex",
    "uuid",
    "now",
];

/// Limit of digits and random bytes.
const MOST: u64 = 1024;

/// Reasons why a name cannot be declared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum NameError {
    #[error("`{0}` is not a name: expected letters, digits and `_`")]
    Invalid(String),
    #[error("`{0}` is the name of a built-in value: use another name")]
    Reserved(String),
}

/// Reasons why the arguments of a value are invalid. The message follows the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum ArgumentError {
    #[error("needs a number")]
    NoNumber,
    #[error("needs `{0}=` with a number")]
    Missing(&'static str),
    #[error("has `{0}`, expected a whole number")]
    NotWhole(String),
    #[error("has a number above {0}")]
    TooLarge(u64),
    #[error("has a `to` below its `from`")]
    Backwards,
    #[error("has no arguments: expected the texts to choose from")]
    NoWords,
    #[error("has the unknown argument `{0}`")]
    Unknown(String),
}

/// Names that are known during compilation.
#[derive(Debug, Default)]
pub(in super::super) struct Scope {
    slots: Vec<String>,
    /// Slots that a template may use now.
    visible: Vec<usize>,
    /// Slots that a template uses.
    used: Vec<usize>,
    /// Texts of the counters: equal texts share a counter.
    counters: Vec<String>,
}

impl Scope {
    /// Declares `name` and returns its slot.
    pub(in super::super) fn declare(&mut self, name: &str) -> Result<usize, NameError> {
        if !is_name(name) {
            return Err(NameError::Invalid(name.to_owned()));
        }
        if OWN.contains(&name) {
            return Err(NameError::Reserved(name.to_owned()));
        }
        let known = self.slots.iter().position(|known| known == name);
        Ok(match known {
            Some(slot) => {
                self.visible.push(slot);
                slot
            }
            None => self.add(name.to_owned()),
        })
    }

    fn add(&mut self, name: String) -> usize {
        self.slots.push(name);
        self.visible.push(self.slots.len() - 1);
        self.slots.len() - 1
    }

    /// Returns the slots that a template may use now.
    pub(in super::super) fn visible(&self) -> Vec<usize> {
        self.visible.clone()
    }

    /// Hides all slots except these. Returns the slots that were visible before.
    pub(in super::super) fn see(&mut self, visible: Vec<usize>) -> Vec<usize> {
        std::mem::replace(&mut self.visible, visible)
    }

    /// Declares a column of the rows `set` and returns its slot.
    pub(in super::super) fn column(&mut self, set: &str, column: &str) -> usize {
        self.add(format!("{set}.{column}"))
    }

    /// Returns whether a template uses this slot.
    pub(in super::super) fn is_used(&self, slot: usize) -> bool {
        self.used.contains(&slot)
    }

    fn find(&self, name: &str) -> Option<usize> {
        let mut visible = self.visible.iter().copied();
        visible.find(|slot| self.slots[*slot] == name)
    }

    /// Creates the state that users share, for a run with this seed.
    pub(in super::super) fn shared(&self, seed: u64) -> Arc<SharedValues> {
        // Two runs with one seed must generate different words, so the word includes the time.
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        let run = Random::new(seed, now.as_nanos() as u64).next();
        Arc::new(SharedValues {
            run: format!("{:010x}", run >> 24),
            seed,
            slots: self.slots.clone(),
            counters: self.counters.iter().map(|_| AtomicU64::new(0)).collect(),
            part: OnceLock::new(),
        })
    }

    pub(super) fn source(&mut self, call: &Call) -> Result<Source, TemplateError> {
        let mut arguments = Arguments(call, vec![false; call.arguments.len()]);
        let source = match call.name.as_str() {
            "unique" => Source::Unique,
            "uuid" => Source::Uuid,
            "iteration" => Source::Iteration {
                width: arguments.number("width", Some(0))? as usize,
            },
            "user" => Source::User {
                width: arguments.number("width", Some(0))? as usize,
            },
            "counter" => Source::Counter {
                range: arguments.range(Some(u64::MAX))?,
                index: self.counter(call),
            },
            "random" => Source::Random(arguments.range(None)?),
            "pick" => Source::Pick(arguments.words()?),
            "hex" => Source::Hex(arguments.number("", None)? as usize),
            "now" => Source::Now {
                milliseconds: arguments.flag("ms"),
            },
            name => {
                let slot = self.find(name).ok_or_else(|| self.unknown(name))?;
                self.used.push(slot);
                Source::Slot(slot)
            }
        };
        arguments.none_left()?;
        Ok(source)
    }

    fn counter(&mut self, call: &Call) -> usize {
        let text = format!("{:?}", call.arguments);
        let known = self.counters.iter().position(|known| *known == text);
        known.unwrap_or_else(|| {
            self.counters.push(text);
            self.counters.len() - 1
        })
    }

    fn unknown(&self, name: &str) -> TemplateError {
        let slots = self.slots.iter().enumerate();
        let slots = slots.filter(|(slot, _)| self.visible.contains(slot));
        let slots = slots.map(|(_, known)| known.as_str());
        let known: Vec<&str> = slots.chain(OWN).collect();
        let near = nearest(name, &known).map(str::to_owned);
        let name = name.to_owned();
        match near {
            Some(near) => TemplateError::Misspelt { name, near },
            None => TemplateError::Unknown {
                name,
                known: known.into_iter().map(str::to_owned).collect(),
            },
        }
    }
}

/// Arguments of a call, and whether each has been used.
struct Arguments<'c>(&'c Call, Vec<bool>);

impl Arguments<'_> {
    fn wrong(&self, source: ArgumentError) -> TemplateError {
        TemplateError::Arguments {
            value: self.0.name.clone(),
            source,
        }
    }

    fn take(&mut self, name: &str) -> Option<&str> {
        let mut all = self.0.arguments.iter();
        let at = all.position(|(other, _)| other == name)?;
        self.1[at] = true;
        Some(&self.0.arguments[at].1)
    }

    fn number(&mut self, name: &'static str, default: Option<u64>) -> Result<u64, TemplateError> {
        let most = if name == "width" || name.is_empty() {
            MOST
        } else {
            u64::MAX
        };
        let text = self.take(name).map(str::to_owned);
        match (text, default) {
            (None, Some(default)) => Ok(default),
            (None, None) if name.is_empty() => Err(self.wrong(ArgumentError::NoNumber)),
            (None, None) => Err(self.wrong(ArgumentError::Missing(name))),
            (Some(text), _) => match whole(&text) {
                Some(number) if number <= most => Ok(number),
                Some(_) => Err(self.wrong(ArgumentError::TooLarge(most))),
                None => Err(self.wrong(ArgumentError::NotWhole(text))),
            },
        }
    }

    fn range(&mut self, end: Option<u64>) -> Result<Range, TemplateError> {
        let range = Range {
            from: self.number("from", Some(0))?,
            to: self.number("to", end)?,
            width: self.number("width", Some(0))? as usize,
        };
        if range.from <= range.to {
            Ok(range)
        } else {
            Err(self.wrong(ArgumentError::Backwards))
        }
    }

    fn flag(&mut self, name: &str) -> bool {
        let mut all = self.0.arguments.iter();
        let at = all.position(|(key, value)| key.is_empty() && value == name);
        at.inspect(|at| self.1[*at] = true).is_some()
    }

    fn words(&mut self) -> Result<Vec<String>, TemplateError> {
        let words = self.0.arguments.iter().filter(|(name, _)| name.is_empty());
        let words: Vec<String> = words.map(|(_, word)| word.clone()).collect();
        for (seen, (name, _)) in self.1.iter_mut().zip(&self.0.arguments) {
            *seen |= name.is_empty();
        }
        if words.is_empty() {
            Err(self.wrong(ArgumentError::NoWords))
        } else {
            Ok(words)
        }
    }

    fn none_left(&self) -> Result<(), TemplateError> {
        let left = self.1.iter().position(|seen| !seen);
        let Some((name, value)) = left.map(|at| &self.0.arguments[at]) else {
            return Ok(());
        };
        let argument = if name.is_empty() { value } else { name };
        Err(self.wrong(ArgumentError::Unknown(argument.clone())))
    }
}

/// Parses a whole number, or a product or quotient of whole numbers (`50000 / 10`), rounded up.
fn whole(text: &str) -> Option<u64> {
    let (mut number, mut operator) = (1_u64, Some('*'));
    for piece in text.split_inclusive(['*', '/']) {
        let digits = piece.trim_end_matches(['*', '/']);
        let operand: u64 = digits.trim().parse().ok()?;
        number = match operator {
            Some('/') => (operand > 0).then(|| number.div_ceil(operand))?,
            _ => number.checked_mul(operand)?,
        };
        operator = piece[digits.len()..].chars().next();
    }
    operator.is_none().then_some(number)
}

/// State that all users share.
#[derive(Debug)]
pub(in super::super) struct SharedValues {
    run: String,
    seed: u64,
    slots: Vec<String>,
    counters: Vec<AtomicU64>,
    /// Part of the numbers of counters and rows.
    part: OnceLock<Part>,
}

impl SharedValues {
    /// Restricts counters and rows to a part of a run.
    pub(in super::super) fn divide(&self, part: Part) {
        let _ = self.part.set(part);
    }

    /// Returns the part of the run that has the numbers of this process.
    pub(in super::super) fn part(&self) -> Part {
        self.part.get().copied().unwrap_or_default()
    }
}

/// Values of one user.
#[derive(Clone, Debug)]
pub(in super::super) struct Values {
    common: Arc<SharedValues>,
    slots: Vec<Option<String>>,
    random: Random,
    iteration: u64,
    user: u64,
    /// End of `{{unique}}` outside iterations.
    suffix: &'static str,
}

impl Values {
    pub(in super::super) fn new(common: Arc<SharedValues>, user: u64) -> Self {
        Self {
            slots: vec![None; common.slots.len()],
            random: Random::new(common.seed, user),
            iteration: 0,
            user,
            suffix: "",
            common,
        }
    }

    /// Creates the values of `setup` and `teardown`, which differ from those of every iteration.
    pub(in super::super) fn of_run(common: Arc<SharedValues>) -> Self {
        Self {
            user: 0,
            suffix: "s",
            ..Self::new(common, u64::MAX)
        }
    }

    /// Copies the values that another user knows.
    pub(in super::super) fn begin_with(&mut self, known: &Values) {
        self.slots.clone_from(&known.slots);
    }

    /// Begins or ends `userSetup`, whose `{{unique}}` differs from those of all iterations.
    pub(in super::super) fn set_up(&mut self, begins: bool) {
        self.suffix = if begins { "u" } else { "" };
    }

    /// Begins an iteration, and clears these slots.
    pub(in super::super) fn begin(&mut self, iteration: &Iteration, forget: &[usize]) {
        self.iteration = iteration.number();
        forget.iter().for_each(|slot| self.slots[*slot] = None);
    }

    pub(in super::super) fn get(&self, slot: usize) -> Option<&str> {
        self.slots[slot].as_deref()
    }

    pub(in super::super) fn set(&mut self, slot: usize, value: String) {
        self.slots[slot] = Some(value);
    }

    /// Copies a value into the slot.
    pub(in super::super) fn copy(&mut self, slot: usize, value: &str) {
        let kept = self.slots[slot].get_or_insert_default();
        kept.clear();
        kept.push_str(value);
    }

    pub(in super::super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    pub(super) fn write(&mut self, source: &Source, out: &mut String) {
        // Writing to memory cannot fail.
        let _ = match source {
            Source::Unique => write!(out, "{}-{}{}", self.common.run, self.iteration, self.suffix),
            Source::Iteration { width } => write!(out, "{:0width$}", self.iteration),
            Source::User { width } => write!(out, "{:0width$}", self.user),
            Source::Counter { index, range } => {
                let next = self.common.counters[*index].fetch_add(1, Relaxed);
                let next = self.common.part().number(next);
                write!(out, "{:0width$}", range.nth(next), width = range.width)
            }
            Source::Random(range) => {
                let chance = match range.size() {
                    Some(size) => self.random.below(size),
                    None => self.random.next(),
                };
                write!(out, "{:0width$}", range.nth(chance), width = range.width)
            }
            Source::Pick(words) => {
                let index = self.random.below(words.len() as u64) as usize;
                out.push_str(&words[index]);
                Ok(())
            }
            Source::Hex(bytes) => (0..*bytes).try_for_each(|_| {
                let byte = self.random.next() >> 56;
                write!(out, "{byte:02x}")
            }),
            Source::Uuid => self.uuid(out),
            Source::Now { milliseconds } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = now.unwrap_or_default().as_millis();
                write!(out, "{}", if *milliseconds { now } else { now / 1000 })
            }
            Source::Slot(slot) => {
                if let Some(value) = &self.slots[*slot] {
                    out.push_str(value);
                }
                Ok(())
            }
        };
    }

    /// Writes a random UUID (RFC 9562, section 5.4).
    fn uuid(&mut self, out: &mut String) -> std::fmt::Result {
        let (a, b) = (self.random.next(), self.random.next());
        let version = (a & 0x0fff) | 0x4000;
        let variant = (b >> 48 & 0x3fff) | 0x8000;
        let (first, second) = (a >> 32, a >> 16 & 0xffff);
        let node = b & 0xffff_ffff_ffff;
        write!(
            out,
            "{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{node:012x}"
        )
    }
}

impl Range {
    /// Returns the count of numbers, or `None` for the full range of `u64`.
    fn size(self) -> Option<u64> {
        (self.to - self.from).checked_add(1)
    }

    /// Returns the nth number, repeating from the start.
    fn nth(self, n: u64) -> u64 {
        self.from + self.size().map_or(n, |size| n % size)
    }
}
