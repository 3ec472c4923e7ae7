//! Notes for the inventory: a handshake, or a new judgement of a certificate.

use lucarne_ct::{Delivery, SctFinding, SignedEntry, display_name};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::super::judge::{Standing, entries};
use super::super::memory::Record;
use super::entries::USUAL_MMD;
use super::{Inventory, events, stored};
use crate::time::{day, time};

/// Limit of the stored bytes of a certificate, which the report of a missing entry contains.
const MAX_DER: usize = 16 << 10;

/// Bits of `certificates.reported`.
const NOT_LOGGED: i64 = 1;
const EXPIRING: i64 = 2;

/// A handshake with `host`, or a new judgement if there is no host.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) record: Record,
    pub(crate) host: Option<String>,
    pub(crate) at_ms: u64,
}

impl Note {
    /// Stores the note. Returns whether it added a row.
    pub(super) fn store(&self, to: &Inventory, db: &Connection) -> rusqlite::Result<bool> {
        let record = &self.record;
        let fingerprint = &record.fingerprint.0;
        let judgement = &record.judgement;
        let at = stored(self.at_ms);
        let valid = judgement
            .scts
            .iter()
            .filter(|sct| sct.seen.finding == SctFinding::Valid);
        let valid = stored(valid.count() as u64);
        let known = "SELECT scts, reported FROM certificates WHERE fingerprint = ?";
        let known = db.prepare_cached(known)?.query_row([fingerprint], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
        let known = known.optional()?;
        if self.host.is_none() && known.is_none() {
            return Ok(false); // the certificate was removed, or never written
        }
        let issuer = record
            .certificate()
            .map_or_else(String::new, |leaf| display_name(leaf.issuer()));
        let not_after = record.certificate().and_then(|leaf| leaf.not_after());
        if known.is_none() {
            let der = Some(&record.leaf[..]).filter(|der| der.len() <= MAX_DER);
            let insert = "INSERT INTO certificates (fingerprint, der, issuer, not_after, standing, \
                          logged, policy_failed, first, last) VALUES (?, ?, ?, ?, '', 0, 0, ?, ?)";
            db.prepare_cached(insert)?.execute(params![
                fingerprint,
                der,
                issuer,
                not_after,
                at,
                at
            ])?;
        }
        let update = "UPDATE certificates SET standing = ?, logged = ?, policy_failed = ?, \
                      last = max(last, ?) WHERE fingerprint = ?";
        let (standing, logged) = (judgement.standing.name(), judgement.is_logged());
        db.prepare_cached(update)?.execute(params![
            standing,
            logged,
            judgement.fails_policy(),
            at,
            fingerprint
        ])?;
        let (scts, reported) = known.unwrap_or_default();
        if scts != valid {
            self.promised(db, valid)?;
        }
        let mut added = known.is_none();
        if let Some(host) = &self.host {
            added |= self.seen_at(host, &issuer, to, db)?;
        }
        let unlogged = matches!(judgement.standing, Standing::NoSct | Standing::Invalid);
        if judgement.listed && !logged && unlogged && reported & NOT_LOGGED == 0 {
            let body = json!({
                "host": self.host, "certificate": record.fingerprint.to_string(),
                "issuer": issuer, "standing": standing, "note": judgement.unseen(),
            });
            events::report(to, db, "not-logged", &record.fingerprint.to_string(), body)?;
            mark(db, fingerprint, NOT_LOGGED)?;
        }
        Ok(added)
    }

    /// Stores the pair of host and certificate. Reports an issuer that is new for a known host.
    fn seen_at(
        &self,
        host: &str,
        issuer: &str,
        to: &Inventory,
        db: &Connection,
    ) -> rusqlite::Result<bool> {
        let (fingerprint, at) = (&self.record.fingerprint.0, stored(self.at_ms));
        let update = "UPDATE hosts SET last = max(last, ?), handshakes = handshakes + 1 \
                      WHERE name = ? AND fingerprint = ?";
        if db
            .prepare_cached(update)?
            .execute(params![at, host, fingerprint])?
            > 0
        {
            return Ok(false);
        }
        let before = "SELECT count(*), coalesce(sum(issuer = ?), 0) FROM hosts \
                      JOIN certificates USING (fingerprint) WHERE name = ?";
        let (before, same): (i64, i64) = db
            .prepare_cached(before)?
            .query_row([issuer, host], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let insert = "INSERT INTO hosts VALUES (?, ?, ?, ?, 1)";
        db.prepare_cached(insert)?
            .execute(params![host, fingerprint, at, at])?;
        if before > 0 && same == 0 {
            let certificate = self.record.fingerprint.to_string();
            let body = json!({"host": host, "certificate": certificate, "issuer": issuer});
            events::report(to, db, "new-issuer", &format!("{host}:{issuer}"), body)?;
        }
        Ok(true)
    }

    /// Stores the entries that logs promised with valid SCTs.
    fn promised(&self, db: &Connection, valid: i64) -> rusqlite::Result<()> {
        let record = &self.record;
        let Some(leaf) = record.certificate() else {
            return Ok(());
        };
        let entries = entries(&leaf, &record.path, &record.judgement.staple);
        let fingerprint = &record.fingerprint.0;
        let insert = "INSERT INTO entries (log, leaf, fingerprint, sct, due) \
                      VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
        let mut insert = db.prepare_cached(insert)?;
        for seen in record.judgement.scts.iter().map(|sct| &sct.seen) {
            let entry = match seen.delivery {
                Delivery::Embedded => entries.embedded(),
                Delivery::Ocsp | Delivery::Tls => Some(entries.delivered()),
            };
            let (Some(valid), Some(sct), Some(entry)) = (seen.valid(), &seen.sct, entry) else {
                continue;
            };
            let mmd = Some(valid.log.mmd)
                .filter(|mmd| *mmd > 0)
                .unwrap_or(USUAL_MMD);
            let due = sct.timestamp.saturating_add(mmd.saturating_mul(1000));
            let leaf = sct.leaf_hash(entry);
            let row = params![
                sct.log_id.0,
                leaf.0,
                fingerprint,
                sct.to_json(),
                stored(due)
            ];
            insert.execute(row)?;
            if let SignedEntry::Precert {
                issuer_key_hash, ..
            } = entry
            {
                let update = "UPDATE certificates SET issuer_key = ? WHERE fingerprint = ?";
                db.prepare_cached(update)?
                    .execute(params![issuer_key_hash, fingerprint])?;
            }
        }
        let update = "UPDATE certificates SET scts = ? WHERE fingerprint = ?";
        db.prepare_cached(update)?
            .execute(params![valid, fingerprint])?;
        Ok(())
    }
}

fn mark(db: &Connection, fingerprint: &[u8], bit: i64) -> rusqlite::Result<()> {
    let update = "UPDATE certificates SET reported = reported | ? WHERE fingerprint = ?";
    db.prepare_cached(update)?
        .execute(params![bit, fingerprint])
        .map(|_| ())
}

/// Reports certificates that expire soon, if a host has not replaced them.
pub(super) fn expiring(to: &Inventory, db: &Connection, now: i64) -> rusqlite::Result<()> {
    let soon = now.saturating_add(to.bounds.expiry_ms);
    let select = "SELECT c.fingerprint, c.issuer, c.not_after, h.name
        FROM certificates c JOIN hosts h USING (fingerprint)
        WHERE c.not_after > ?1 AND c.not_after <= ?2 AND c.reported & ?3 = 0
          AND NOT EXISTS (SELECT 1 FROM hosts o WHERE o.name = h.name AND o.last > h.last)
        GROUP BY c.fingerprint";
    let mut select = db.prepare_cached(select)?;
    let rows = select.query_map([now, soon, EXPIRING], |row| {
        let (issuer, not_after, host) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((row.get(0)?, issuer, not_after, host))
    })?;
    let rows: Vec<(Vec<u8>, String, i64, String)> = rows.collect::<Result<_, _>>()?;
    for (fingerprint, issuer, not_after, host) in rows {
        let certificate = hex::encode(&fingerprint);
        let body = json!({
            "host": host, "certificate": certificate, "issuer": issuer, "expires": time(not_after),
        });
        events::report(
            to,
            db,
            "expiring",
            &format!("{certificate}:{}", day(not_after)),
            body,
        )?;
        mark(db, &fingerprint, EXPIRING)?;
    }
    Ok(())
}
