//! Health checks of a log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lucarne_ct::Verification;
use lucarne_x509::text::counted;
use parking_lot::Mutex;

use crate::check::scrub::wrong_names;
use crate::config::instances::CHANGE_OF_LEADER;
use crate::index::backlog::Backlog;
use crate::index::dedup::Dedup;
use crate::index::unreadable_entries::POSTDATED_MS;
use crate::shared::Shared;
use crate::status::clock_jump::TOLERATED_MS;
use crate::status::state::{Check, Health, State};
use crate::submit::session::Session;

/// Maximum age of a result before the checks run again. The checks cost the lock and the disk some
/// work.
const FRESH: Duration = Duration::from_secs(1);
/// The MMD of a static log: the maximum age of its checkpoint.
const MAX_CHECKPOINT_AGE_MS: u64 = 60_000;
/// Free space in bytes below which operators must act.
const MIN_HEADROOM: u64 = 512 << 20;
const HOUR_MS: f64 = 3_600_000.0;
/// Time after which a write to the dedup index that has not ended is reported.
const INDEX_STANDS: Duration = Duration::from_secs(5);
/// Timeout of a check of the lock or of storage.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the checks at most once a second, and at once when the log's state has changed.
///
/// Only one run is in progress at a time, for all clients. The run continues when the clients
/// disconnect, so a hung disk gets only one request. Other clients of this time get the previous
/// result with its age.
#[derive(Default)]
pub(crate) struct Prober {
    last: Arc<Mutex<Option<Answer>>>,
    asking: Arc<tokio::sync::Mutex<()>>,
}

struct Answer {
    at: Instant,
    state: State,
    health: Health,
}

impl Prober {
    pub(crate) async fn health(&self, log: &Arc<Shared>, state: State) -> Health {
        if let Some(answer) = self.last.lock().as_ref()
            && answer.at.elapsed() < FRESH
            && answer.state == state
        {
            return answer.health.clone();
        }
        match self.asking.clone().try_lock_owned() {
            Ok(turn) => {
                let (log, state, last) = (log.clone(), state.clone(), self.last.clone());
                let asked = tokio::spawn(async move {
                    let checks = probe(&log, state.clone()).await;
                    *last.lock() = Some(Answer {
                        at: Instant::now(),
                        state,
                        health: Health { checks },
                    });
                    drop(turn);
                });
                // If the task panics, there is no new result.
                let _ = asked.await;
            }
            Err(_) if self.last.lock().is_none() => drop(self.asking.lock().await),
            Err(_) => {}
        }
        self.answer(state_check(state, log.status.state_age()))
    }

    /// Returns the last result, with the current state of the log.
    fn answer(&self, now: Check) -> Health {
        let last = self.last.lock();
        let Some(answer) = last.as_ref() else {
            let mut checks = vec![now];
            checks.push(Check {
                name: "answer",
                ok: false,
                detail: "the lock and the storage of the log could not be checked".into(),
            });
            return Health { checks };
        };
        let mut health = answer.health.clone();
        match health
            .checks
            .iter_mut()
            .find(|check| check.name == now.name)
        {
            Some(check) => *check = now,
            None => health.checks.insert(0, now),
        }
        let age = answer.at.elapsed();
        if age >= FRESH {
            health.checks.push(Check {
                name: "answer",
                ok: true,
                detail: format!(
                    "lock and storage were checked {:.1} s ago; the next check is running",
                    age.as_secs_f64()
                ),
            });
        }
        health
    }
}

async fn probe(log: &Shared, state: State) -> Vec<Check> {
    let (retired, is_running) = (state == State::Retired, state == State::Running);
    let (lock, storage, files) =
        tokio::join!(lock_check(log), storage_check(log), files_check(log));
    let verification = verification_check(&log.config.verification);
    let state = state_check(state, log.status.state_age());
    let mut checks = vec![state, lock, storage, files, verification];
    // A retired log signs nothing, so its last checkpoint gets old.
    if !retired {
        let now_ms = log.config.clock.now_ms();
        let signed_ms = log
            .reader
            .published()
            .map(|published| published.timestamp_ms);
        checks.push(age_check(now_ms, signed_ms));
        let ahead_ms = log.status.jumps.ahead_ms(now_ms, Instant::now());
        checks.push(clock_check(now_ms, signed_ms, ahead_ms));
    }
    if log.submissions.awaits_roots() {
        checks.push(Check {
            name: "roots",
            ok: false,
            detail: "not all roots that the log accepts have been read".into(),
        });
    }
    if log.config.scrub.is_some() {
        checks.push(log.status.scrub.check(log.config.clock.now_ms()));
    }
    if log.config.witnesses.is_some() {
        checks.push(log.status.witnesses.check());
    }
    if log.config.instances.is_some() {
        checks.push(instances_check(log, is_running));
    }
    if let Some(session) = log.submissions.session.load().as_ref() {
        checks.push(dedup_check(log, session));
    }
    checks
}

fn state_check(state: State, age: Duration) -> Check {
    let (ok, detail) = match state {
        State::Running => (true, "running".into()),
        State::Retired => (true, "retired: read-only".into()),
        State::Starting => (false, "starting".into()),
        State::Closed => (false, "shut down".into()),
        State::Following {
            leader: Some(address),
        } => (true, format!("following {address}")),
        State::Following { leader: None } => (
            age < CHANGE_OF_LEADER,
            "following; no instance leads".into(),
        ),
        State::Stopped { reason, .. } => (false, reason),
    };
    Check {
        name: "state",
        ok,
        detail,
    }
}

/// Reports the reason why this instance cannot follow the log, or cannot forward submissions to the
/// leader, or leads slowly.
fn instances_check(log: &Shared, is_running: bool) -> Check {
    let now = tokio::time::Instant::now();
    let is_slow = is_running && log.instance.slowness.lock().is_slow(now);
    let slow = is_slow.then(|| {
        "the last rounds of this leader were slow: check the store, the lock and the network of \
         this instance"
            .to_owned()
    });
    let trouble = log.status.trouble().or(slow);
    Check {
        name: "instances",
        ok: trouble.is_none(),
        detail: trouble.unwrap_or_else(|| "leads or follows as configured".into()),
    }
}

async fn lock_check(log: &Shared) -> Check {
    let answer = tokio::time::timeout(CHECK_TIMEOUT, log.lock.check()).await;
    let (ok, detail) = match answer {
        Ok(Ok(())) => (true, format!("{} is writable", log.lock.location())),
        Ok(Err(error)) => (false, error.to_string()),
        Err(_) => (false, format!("{} does not respond", log.lock.location())),
    };
    Check {
        name: "lock",
        ok,
        detail,
    }
}

async fn storage_check(log: &Shared) -> Check {
    let answer = tokio::time::timeout(CHECK_TIMEOUT, log.assets.headroom()).await;
    let location = log.assets.location();
    let (ok, detail) = match answer {
        Ok(Ok(_)) if log.status.is_stalled() => (false, stalled(&location)),
        Ok(Ok(None)) => (true, format!("{location} responds")),
        Ok(Ok(Some(bytes))) => {
            log.metrics
                .headroom
                .set(i64::try_from(bytes).unwrap_or(i64::MAX));
            let detail = format!("{location}: {} MiB free", bytes >> 20);
            (bytes >= MIN_HEADROOM, detail)
        }
        Ok(Err(error)) if error.is_absence() => (false, format!("{location} is missing")),
        Ok(Err(error)) => (false, error.to_string()),
        Err(_) => (false, format!("{location} does not respond")),
    };
    Check {
        name: "storage",
        ok,
        detail,
    }
}

fn stalled(location: &str) -> String {
    format!(
        "{location}: writes are not durable yet, and the journal has its maximum length \
         (`maxjournal`): submissions are refused until a sync ends"
    )
}

/// Reports requested files that differ from the bytes of the log.
async fn files_check(log: &Shared) -> Check {
    // Another check reports a timeout of storage.
    let look = async {
        log.reader.look_again().await;
        // An issuer that is missing is in the list of damaged files now.
        let _ = log.reader.keeps_issuers().await;
    };
    let _ = tokio::time::timeout(CHECK_TIMEOUT, look).await;
    let names = tokio::time::timeout(CHECK_TIMEOUT, wrong_names(log)).await;
    let damaged = log.reader.tiles().damaged().in_words();
    let damaged = [damaged, names.ok().flatten()].into_iter().flatten();
    let damaged = damaged.reduce(|files, names| format!("{files}; {names}"));
    Check {
        name: "files",
        ok: damaged.is_none(),
        detail: match damaged {
            None => "all files that were read match the tree".into(),
            Some(files) => format!("{}/{files}", log.assets.location()),
        },
    }
}

/// Reports the state of the dedup index. The log accepts submissions without its whole index, but
/// the operator must restore unreadable tiles.
fn dedup_check(log: &Shared, session: &Session) -> Check {
    let dedup = &session.dedup;
    let stands = session.indexing().filter(|time| *time >= INDEX_STANDS);
    let (backlog, unknown) = (dedup.backlog(), dedup.gaps.entries());
    let problems = [
        stands.map(|time| {
            format!(
                "the disk of the dedup index in {} has not responded for {} s",
                log.config.cache.display(),
                time.as_secs()
            )
        }),
        dedup.is_distrusted().then(|| {
            format!(
                "the dedup index in {} returned a wrong place; no SCT was signed for this place. \
                 Restart the log: the index is set aside and rebuilt",
                log.config.cache.display()
            )
        }),
        (backlog.entries() > 0).then(|| unread(dedup, &backlog, log.config.clock.now_ms())),
        (unknown > 0).then(|| {
            format!(
                "the log does not know {}, because tiles are damaged ({}, …): submissions that \
                 may be among them are refused. Restore the tiles from a copy; `lucarne fsck` \
                 lists all of them",
                counted(unknown, "entry"),
                dedup.gaps.tiles()
            )
        }),
    ];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    let detail = if problems.is_empty() {
        "agrees with the tree".into()
    } else {
        problems.join(". ")
    };
    Check {
        name: "dedup",
        ok: problems.is_empty(),
        detail,
    }
}

/// Describes the progress of reading the backlog, and the submissions that are rejected until then.
fn unread(dedup: &Dedup, backlog: &Backlog, now_ms: u64) -> String {
    let (left, all, pace) = (backlog.entries(), dedup.indexed(), &dedup.pace);
    let pace = match (pace.problem(), pace.entries_per_second(), pace.time_left()) {
        (Some(problem), ..) => format!("reading is suspended: {problem}"),
        (None, Some(rate), Some(time)) => format!("{rate:.0}/s, {} s left", time.as_secs()),
        _ => "just started".into(),
    };
    let age_ms = backlog
        .latest_ms()
        .map_or(0, |latest_ms| now_ms.saturating_sub(latest_ms));
    let taken = match age_ms.checked_sub(POSTDATED_MS) {
        Some(taken_ms) => format!(
            "certificates that became valid in the last {:.1} h are accepted",
            taken_ms as f64 / HOUR_MS
        ),
        None => {
            "nearly all others are refused as well, until the last two days have been read".into()
        }
    };
    format!(
        "the index, which is being read from the tiles ({pace}), lacks {left} of {}. Submissions \
         that may be among them are refused; {taken}",
        counted(all, "entry")
    )
}

/// Reports a signature that our own arithmetic accepted and aws-lc-rs refused. The operator must
/// check processor, memory and other accepted entries. After the error, aws-lc-rs verifies all
/// signatures, but the log stays unhealthy.
fn verification_check(verification: &Verification) -> Check {
    let (ok, detail) = match verification.disagreement() {
        Some(disagreement) => {
            let detail = format!(
                "our verifier accepted a signature that aws-lc-rs refuses, and is disabled: \
                 {disagreement}"
            );
            (false, detail)
        }
        None if verification.stats().by_own => (true, "fast".into()),
        None => (true, "general".into()),
    };
    Check {
        name: "verification",
        ok,
        detail,
    }
}

fn age_check(now_ms: u64, signed_ms: Option<u64>) -> Check {
    let age_ms = signed_ms.map(|signed_ms| now_ms.saturating_sub(signed_ms));
    Check {
        name: "checkpoint_age",
        ok: age_ms.is_some_and(|age_ms| age_ms <= MAX_CHECKPOINT_AGE_MS),
        detail: match age_ms {
            Some(age_ms) => format!("{:.1} s", age_ms as f64 / 1000.0),
            None => "no checkpoint is published".into(),
        },
    }
}

fn clock_check(now_ms: u64, signed_ms: Option<u64>, ahead_ms: u64) -> Check {
    let behind_ms = signed_ms.unwrap_or(0).saturating_sub(now_ms);
    Check {
        name: "clock",
        ok: behind_ms <= TOLERATED_MS && ahead_ms == 0,
        detail: match (behind_ms, ahead_ms) {
            (0, 0) => "agrees with the log".into(),
            (0, ahead_ms) => format!("jumped {ahead_ms} ms ahead since the last round"),
            (behind_ms, _) => format!("{behind_ms} ms behind the newest checkpoint"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::forward_queue::Leader;
    use crate::submit::submission::tests::{World, settled, stop};

    #[tokio::test]
    async fn a_change_of_the_leader_is_no_problem_until_it_fails() {
        let follows = State::Following { leader: None };
        let second = Duration::from_secs(1);
        assert!(state_check(follows.clone(), CHANGE_OF_LEADER - second).ok);
        assert!(!state_check(follows, CHANGE_OF_LEADER).ok);
        assert!(!state_check(State::Starting, second).ok);

        let cache = tempfile::tempdir().unwrap();
        let log = World::new(cache.path()).await.start();
        let (instance, now) = (&log.instance, tokio::time::Instant::now());
        let leader = |epoch| Leader {
            address: "a:1".into(),
            epoch,
        };
        assert!(!instance.leads_not(&leader(1), now));
        assert!(!instance.leads_not(&leader(1), now + second));
        assert!(instance.leads_not(&leader(1), now + CHANGE_OF_LEADER));
        assert!(!instance.leads_not(&leader(2), now + CHANGE_OF_LEADER));
        instance.leads();
        assert!(!instance.leads_not(&leader(2), now + 3 * CHANGE_OF_LEADER));
        // The next attempt is much later: this is another change of the leader.
        assert!(!instance.leads_not(&leader(2), now + 9 * CHANGE_OF_LEADER));
        stop(&log).await;
    }

    #[tokio::test]
    async fn an_index_whose_disk_hangs_is_reported() {
        let cache = tempfile::tempdir().unwrap();
        let log = World::new(cache.path()).await.start();
        settled(&log, |state| *state == State::Running).await;
        let session = log.submissions.session.load_full().unwrap();
        let now = tokio::time::Instant::now();
        session.note_indexing(Some(now));
        assert!(dedup_check(&log, &session).ok, "a write may take a moment");
        session.note_indexing(now.checked_sub(INDEX_STANDS));
        let check = dedup_check(&log, &session);
        assert!(
            !check.ok && check.detail.contains("has not responded for 5 s"),
            "{check:?}"
        );
        session.note_indexing(None);
        assert!(dedup_check(&log, &session).ok);
        drop(session);
        stop(&log).await;
    }
}
