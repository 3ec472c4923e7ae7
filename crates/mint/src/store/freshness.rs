use std::time::{Duration, SystemTime};

use super::{Minted, StoreOptions};

/// Start of the renewal of a certificate, and end of its use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness {
    pub(super) refresh: SystemTime,
    pub(super) expires: SystemTime,
}

/// State of a certificate at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// Valid, but its renewal is due.
    Ageing,
    Expired,
}

impl Freshness {
    pub(super) fn of(minted: &Minted, options: &StoreOptions) -> Self {
        let life = minted.not_after.duration_since(minted.not_before);
        let life = life.unwrap_or(Duration::ZERO);
        let expires = minted.not_after - options.margin.min(life / 10);
        let refresh = expires - options.ahead.min(life / 4);
        Freshness { refresh, expires }
    }

    pub(super) fn at(&self, now: SystemTime) -> Age {
        if now >= self.expires {
            Age::Expired
        } else if now >= self.refresh {
            Age::Ageing
        } else {
            Age::Fresh
        }
    }

    /// Postpones a failed renewal by an eighth of the remaining time.
    pub(super) fn put_off(self, now: SystemTime) -> Self {
        let left = self.expires.duration_since(now).unwrap_or(Duration::ZERO);
        let refresh = now + left / 8;
        Freshness { refresh, ..self }
    }
}
