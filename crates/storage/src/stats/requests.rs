//! Counting and reporting of requests to object stores.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use http::HeaderMap;
use http::header::DATE;

use super::{Stats, StoreDate};
use crate::Observer;

impl Stats {
    /// Creates counters that also report requests to `observer`.
    pub(crate) fn observed(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
            ..Self::default()
        }
    }

    pub(crate) fn report(&self, what: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            what(&**observer);
        }
    }

    pub(crate) fn requested(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn hedged(&self) {
        self.hedges.fetch_add(1, Relaxed);
        self.report(|observer| observer.hedge());
    }
}

impl Stats {
    /// Records the clock of a store from the headers of a response.
    pub(crate) fn responded(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(unix_ms) = date.and_then(imf_date) {
            let at = Instant::now();
            self.set_date(StoreDate { unix_ms, at });
        }
    }
}

/// Parses a date of HTTP (RFC 9110, section 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`, to
/// Unix milliseconds.
fn imf_date(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, date) = text.strip_suffix(" GMT")?.split_once(", ")?;
    let mut parts = date.split(' ');
    let (day, month) = (parts.next()?, parts.next()?);
    let (year, time) = (parts.next()?, parts.next()?);
    let month = MONTHS
        .find(month)
        .filter(|at| month.len() == 3 && at % 3 == 0)?
        / 3
        + 1;
    lucarne_x509::time::rfc3339(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http() {
        assert_eq!(
            imf_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777_000)
        );
        for wrong in [
            "",
            "06 Nov 1994",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 GMT",
        ] {
            assert_eq!(imf_date(wrong), None, "{wrong}");
        }
    }
}
