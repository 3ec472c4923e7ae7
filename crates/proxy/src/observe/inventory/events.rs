//! Events: each is stored once, and waits for the webhook, if there is one.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde_json::Value;

use super::{Inventory, MAX_EVENTS, now};
use crate::time::time;

/// An event that waits for the webhook.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) body: String,
    /// Number of attempts so far.
    pub(crate) tries: u32,
}

/// Outcome of an attempt to send an event.
#[derive(Debug)]
pub(crate) enum Outcome {
    Sent,
    /// Send again at this time, after this error.
    Again(i64, String),
    GivenUp(String),
}

/// A stored event, for the page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventRow {
    pub(crate) kind: String,
    pub(crate) time: String,
    pub(crate) outcome: String,
    /// Host or log.
    #[serde(skip)]
    pub(crate) about: String,
    pub(crate) body: Value,
}

/// Stores an event, unless it was reported before. `of` distinguishes events of one kind.
pub(super) fn report(
    to: &Inventory,
    db: &Connection,
    kind: &str,
    of: &str,
    mut body: Value,
) -> rusqlite::Result<()> {
    let (id, at) = (format!("{kind}:{of}"), now());
    body["id"] = Value::from(&id[..]);
    body["kind"] = Value::from(kind);
    body["time"] = Value::from(time(at));
    let hooked = to.bounds.hooked;
    let (next, outcome) = (
        hooked.then_some(at),
        if hooked { "waiting" } else { "no webhook" },
    );
    let insert = "INSERT INTO events (id, kind, at, body, next, outcome) \
                  VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let row = params![id, kind, at, body.to_string(), next, outcome];
    if db.prepare_cached(insert)?.execute(row)? == 0 {
        return Ok(());
    }
    // Finished events go first, then the oldest.
    let trim = "DELETE FROM events WHERE id IN (SELECT id FROM events \
                ORDER BY next IS NULL, at DESC, rowid DESC LIMIT -1 OFFSET ?)";
    let count = "SELECT count(*) FROM events";
    let count: i64 = db.prepare_cached(count)?.query_row([], |row| row.get(0))?;
    if count > MAX_EVENTS {
        let dropped = db.prepare_cached(trim)?.execute([MAX_EVENTS])?;
        to.metrics.drop_many("inventory-events", dropped as u64);
    }
    tracing::warn!(event = kind, of, "the inventory has a new event");
    to.wake.notify_one();
    Ok(())
}

/// Returns the next event for the webhook, and the time of its next attempt.
pub(crate) fn next(db: &Connection) -> rusqlite::Result<Option<(i64, Event)>> {
    let select = "SELECT next, id, body, tries FROM events WHERE next IS NOT NULL \
                  ORDER BY next LIMIT 1";
    let event = db.prepare_cached(select)?.query_row([], |row| {
        let (id, body, tries) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((row.get(0)?, Event { id, body, tries }))
    });
    event.optional()
}

/// Stores the outcome of an attempt.
pub(crate) fn settle(db: &Connection, id: &str, outcome: &Outcome) -> rusqlite::Result<()> {
    let (next, text) = match outcome {
        Outcome::Sent => (None, "sent".to_owned()),
        Outcome::Again(at, why) => (Some(*at), format!("waiting: {why}")),
        Outcome::GivenUp(why) => (None, format!("given up: {why}")),
    };
    let update = "UPDATE events SET tries = tries + 1, next = ?, outcome = ? WHERE id = ?";
    db.prepare_cached(update)?
        .execute(params![next, text, id])
        .map(|_| ())
}

/// Returns the latest events.
pub(super) fn latest(db: &Connection, limit: i64) -> rusqlite::Result<Vec<EventRow>> {
    let select = "SELECT kind, at, outcome, body FROM events ORDER BY at DESC, rowid DESC LIMIT ?";
    let mut select = db.prepare_cached(select)?;
    let rows = select.query_map([limit], |row| {
        let body: Value = serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default();
        let about = [
            &body["host"],
            &body["hosts"][0],
            &body["log"]["description"],
        ];
        let about = about
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default();
        Ok(EventRow {
            about: about.to_owned(),
            kind: row.get(0)?,
            time: time(row.get::<_, i64>(1)?),
            outcome: row.get(2)?,
            body,
        })
    })?;
    rows.collect()
}
