//! Flags for the rounds of the sequencer.

use std::time::Duration;

use lucarne_settings::Key;
use lucarne_settings::form::Durations;

use super::Flags;
use super::parse::Parse;
use crate::config::keys::rounds::{CHECKPOINTINTERVAL, PERIOD, POOLSIZE};
use crate::config::log;

/// Settings of the sequencer.
pub(super) struct Rounds {
    /// Period of rounds, if given.
    pub(super) period: Option<Duration>,
    /// Checkpoint interval of an idle log, if given.
    pub(super) idle: Option<Duration>,
    pub(super) pool_size: usize,
}

impl Flags {
    pub(super) fn rounds(&self, parse: &mut Parse<'_>) -> Rounds {
        let mut time = |flag, text: &Option<String>, key: &Key<Durations>| {
            let parser = |text: &str| key.form.parse_duration(text);
            parse.value(flag, text.as_deref()?, parser)
        };
        let period = &self.checkpoint_interval;
        let period = time("checkpoint-interval", period, &PERIOD);
        let idle = &self.checkpoint_republish_interval;
        let idle = time("checkpoint-republish-interval", idle, &CHECKPOINTINTERVAL);
        let pool = self.pushback_max_outstanding.as_deref();
        let pool = pool.and_then(|text| {
            parse.value("pushback-max-outstanding", text, |text| {
                POOLSIZE.parse(text)
            })
        });
        Rounds {
            period,
            idle,
            pool_size: pool.map_or(log::POOL_SIZE, log::pool_limit),
        }
    }
}
