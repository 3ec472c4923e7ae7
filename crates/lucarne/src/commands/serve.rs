//! `lucarne serve`: runs logs.

pub(crate) mod options;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use jiff::civil::Date;
use lucarne_ct::Roots;
use lucarne_http::Tls;

use self::options::Serve;
use super::{failed, sound};
use crate::causes::causes;
use crate::config::{Config, Flags, Report};
use crate::creation::Creation;
use crate::files::{self, LONGEST};
use crate::logging::Logging;
use crate::server::{Begin, Ended, Predecessor, Server};
use crate::{handover, inception, listen, runtime, successor, survey};

/// Runs a witness without logs until a signal stops it.
pub(crate) fn witness(config: &Path, logging: &Logging) -> ExitCode {
    let check = |config: &Config| alone(config, config.witness.is_some(), "`witness`");
    run_if(&Serve::file(config.to_owned()), check, logging)
}

/// Runs a mirror without logs until a signal stops it.
pub(crate) fn mirror(config: &Path, logging: &Logging) -> ExitCode {
    let check = |config: &Config| alone(config, config.mirror.is_some(), "`mirror`");
    run_if(&Serve::file(config.to_owned()), check, logging)
}

/// Checks that a configuration has a key and no logs.
fn alone(config: &Config, has: bool, key: &str) -> Result<(), String> {
    match (has, &config.logs[..]) {
        (false, _) => Err(format!("the configuration has no {key}")),
        (true, []) => Ok(()),
        (true, _) => Err("the configuration has logs: run `lucarne serve`".to_owned()),
    }
}

/// Runs the server until a signal stops it.
pub(crate) fn run(options: &Serve, logging: &Logging) -> ExitCode {
    run_if(options, |_| Ok(()), logging)
}

/// Runs the server if its configuration passes the check.
fn run_if(
    options: &Serve,
    check: impl FnOnce(&Config) -> Result<(), String>,
    logging: &Logging,
) -> ExitCode {
    let (flags, path) = (options.flags.clone(), file(options));
    let (read, report) = match files::in_time(LONGEST, move || read(&flags, &path)) {
        Ok(read) => read,
        Err(why) => return failed(format!("nothing was started: {why}")),
    };
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    let Some((mut config, roots)) = sound(read, &report) else {
        return failed("nothing was started; correct the configuration first");
    };
    if let Err(why) = check(&config) {
        return failed(format!("nothing was started: {why}"));
    }
    if let Some(day) = options.confirm_clock
        && let Err(error) = confirm_clock(day, &mut config)
    {
        return failed(error);
    }
    let testcert = match options.testcert() {
        Some(directory) => match testcert(directory, &config) {
            Ok(tls) => Some(tls),
            Err(error) => return failed(causes(&error)),
        },
        None => None,
    };
    let (file, creation) = if options.flags.given() {
        (None, Creation::InFreshDirectory)
    } else {
        (Some(file(options)), Creation::OnInception)
    };
    let served = runtime::run(serve(config, roots, creation, testcert, file, logging));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(causes(&error)),
    }
}

async fn serve(
    config: Config,
    roots: Vec<Roots>,
    creation: Creation,
    testcert: Option<Arc<Tls>>,
    file: Option<PathBuf>,
    logging: &Logging,
) -> Result<()> {
    successor::remember();
    let taking = match &config.handover {
        Some(path) => handover::ask(&path.value, &config).await?,
        None => None,
    };
    let mut begin = Begin {
        creation,
        tls: testcert,
        sockets: listen::activated()?,
        predecessor: taking.map_or(Predecessor::Nobody, Predecessor::Another),
        file,
    };
    let (mut config, mut roots) = (config, roots);
    loop {
        let server = Server::start(config, roots, begin, logging).await?;
        match server.run().await? {
            Ended::Stopped => return Ok(()),
            Ended::Again(again) => (config, roots, begin) = *again,
        }
    }
}

/// Marks the clock as confirmed by the operator. The day must be today, so that a flag left in a
/// unit file does not confirm a later start.
fn confirm_clock(day: Date, config: &mut Config) -> Result<()> {
    let today = inception::today();
    if day != today {
        bail!(
            "--confirm-clock {day}: the date of this machine's clock is {today} (UTC). If that is \
             wrong, correct the clock; if it is right, confirm that day, and only for this start"
        );
    }
    for log in &mut config.logs {
        log.clock = log.clock.clone().confirmed();
    }
    Ok(())
}

/// Returns test certificates, stored in the given directory or in the cache.
fn testcert(directory: Option<&Path>, config: &Config) -> Result<Arc<Tls>> {
    if config.tls.is_some() {
        bail!(
            "--testcert: the configuration has a certificate (`tls:`, --tls-certificate): remove \
             one of the two"
        );
    }
    let directory = match (directory, config.logs.first()) {
        (Some(directory), _) => directory.to_owned(),
        (None, Some(log)) => log.cache.value.join("testcert"),
        (None, None) => {
            bail!("--testcert: no log is configured, so there is no cache: name a directory")
        }
    };
    crate::testcert::open(&directory)
}

/// Reads the configuration, and all files that it names.
fn read(flags: &Flags, file: &Path) -> (Option<(Config, Vec<Roots>)>, Report) {
    let (config, mut report) = flags.read_or(file);
    let read = config.map(|config| {
        let roots = crate::server::read_roots(&config, &mut report);
        survey::certificate(&config, lucarne_mint::now_ms(), &mut report);
        (config, roots)
    });
    (read, report)
}

/// Returns the path of the configuration file.
fn file(options: &Serve) -> PathBuf {
    let default = || PathBuf::from("lucarne.yaml");
    options.config.clone().unwrap_or_else(default)
}
