//! `lucarne adopt`: checks a log that Sunlight or TesseraCT left, and prepares it for Lucarne.
//!
//! The order of the steps protects the log: all checks precede the first write. The index comes
//! next, because the index belongs to Lucarne and can be rebuilt. A missing lock is created last.
//! Before the index, names tiles that do not match their entries are written again.

mod checked;
mod findings;
mod following;
mod holders;
mod names;
pub(crate) mod options;
mod places;
mod preflight;
mod promised;
mod witness;

use std::process::ExitCode;

use anyhow::Result;
use lucarne_net::counted;
use lucarne_storage::make_private_directory;

pub(crate) use self::checked::Checked;
pub(crate) use self::findings::Findings;
use self::options::Adopt;
use self::preflight::{LockState, Preflight};
pub(crate) use self::witness::opened as opened_witness;
use crate::causes::causes;
use crate::commands::{lock, looking, sound};
use crate::config::{Config, LogSettings};
use crate::{inception, runtime};

/// Takes over the log, or follows it until a signal.
pub(crate) fn run(options: &Adopt) -> ExitCode {
    let mut findings = Findings::new(options.json);
    let (config, report) = options.flags.read_or(&options.config);
    let Some(config) = sound(config, &report) else {
        findings.refused("configuration", &report.problem_lines().join("; "));
        return findings.fail("nothing was written; correct the configuration first");
    };
    for line in report.warning_lines() {
        findings.note(&format!("warning: {line}"));
    }
    let adopted = runtime::run(async {
        if options.witness {
            return witness::adopt(&config, options, &mut findings).await;
        }
        let log = looking::the_one(&config, options.name.as_deref())?;
        if options.follow {
            following::follow(log, &mut findings).await
        } else {
            adopt(&config, log, options, &mut findings).await
        }
    });
    adopted.unwrap_or_else(|error| Findings::new(options.json).fail(&causes(&error)))
}

/// Runs all checks, then creates the index and the lock.
async fn adopt(
    config: &Config,
    log: &LogSettings,
    options: &Adopt,
    findings: &mut Findings,
) -> Result<ExitCode> {
    let seen = Preflight::of(config, log, options.sequenced, findings).await?;
    let (true, Some(foreign), Some(lock)) = (findings.stand(), &seen.foreign, seen.lock) else {
        return Ok(refused(findings));
    };
    let (name, size) = (&log.shortname.value, foreign.published().size);
    let serve = serve(options, log, foreign.published().timestamp_ms);
    if options.check {
        let said = format!(
            "log {name} can be taken over; nothing was written. After the \
             takeover, start it with `{serve}`"
        );
        return Ok(findings.end("adoptable", &said, size));
    }
    if let Err(error) = names::write(log, foreign, &seen.names, findings).await {
        findings.refused("names", &causes(&error));
        return Ok(findings.fail("the log was not taken over; its tree and its lock are unchanged"));
    }
    if let Err(error) = index(log, foreign, findings).await {
        findings.refused("index", &causes(&error));
        return Ok(
            findings.fail("the log was not taken over; its files and its lock are unchanged")
        );
    }
    if lock == LockState::Absent {
        findings.note(&lock::rebuild::from_data(config, log).await?);
    }
    let said = format!(
        "log {name} with its {} belongs to Lucarne now. Remove the unit of the old software, so \
         that it never starts again, and start `{serve}`",
        counted(size, "entry")
    );
    Ok(findings.end("adopted", &said, size))
}

/// Returns the command that starts the log. A log with an old signature needs the day as
/// confirmation.
fn serve(options: &Adopt, log: &LogSettings, signed_ms: u64) -> String {
    let mut serve = "lucarne serve".to_owned();
    if lucarne_log::believable(log.clock.now_ms(), signed_ms).is_err() {
        serve += &format!(" --confirm-clock {}", inception::today());
    }
    if !options.flags.given() {
        serve += &format!(" -c {}", options.config.display());
    }
    serve
}

fn refused(findings: &Findings) -> ExitCode {
    findings.fail("the log was not taken over; nothing was written")
}

/// Updates the index to the published tree, and reports the work.
async fn index(
    log: &LogSettings,
    foreign: &lucarne_log::ForeignLog,
    findings: &mut Findings,
) -> Result<()> {
    make_private_directory(&log.cache.value)?;
    let indexed = foreign.index().await?;
    let said = format!(
        "{}, {} of them new, from {}",
        counted(indexed.to, "entry"),
        indexed.to - indexed.from,
        counted(indexed.tiles(), "data tile")
    );
    findings.right("index", &said);
    Ok(())
}
