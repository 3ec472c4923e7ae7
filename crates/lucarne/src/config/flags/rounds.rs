//! Flags for the rounds of the sequencer.

use lucarne_settings::Key;
use lucarne_settings::form::Durations;

use super::Flags;
use super::parse::Parse;
use crate::config::place::DataPlace;
use crate::config::rounds::{KEYS, Rounds};

impl Flags {
    pub(super) fn rounds(&self, parse: &mut Parse<'_>, data: Option<&DataPlace>) -> Rounds {
        let mut rounds = Rounds::of(data);
        let sequencer = &mut rounds.sequencer;
        let mut time = |flag, text: &Option<String>, key: &Key<Durations>| {
            let parser = |text: &str| key.form.parse_duration(text);
            parse.value(flag, text.as_deref()?, parser)
        };
        let period = time("checkpoint-interval", &self.period, &KEYS.period);
        sequencer.period = period.unwrap_or(sequencer.period);
        let flag = "checkpoint-republish-interval";
        let age = time(flag, &self.max_checkpoint_age, &KEYS.checkpointinterval);
        sequencer.max_checkpoint_age = age.unwrap_or(sequencer.max_checkpoint_age);
        if let Some(entries) = self.pushback_max_outstanding.as_deref().and_then(|text| {
            let parser = |text: &str| KEYS.poolsize.parse(text);
            parse.value("pushback-max-outstanding", text, parser)
        }) {
            sequencer.pool_size = entries as usize;
        }
        rounds
    }
}
