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
use crate::config::{Config, Report};
use crate::creation::Creation;
use crate::logging::Logging;
use crate::server::{Begin, Ended, Predecessor, Server};
use crate::{handover, inception, listen, runtime, successor, survey};

/// Runs the server until a signal stops it.
pub(crate) fn run(options: &Serve, logging: &Logging) -> ExitCode {
    let (config, mut report, creation) = read(options);
    let roots = config
        .as_ref()
        .map(|config| crate::server::read_roots(config, &mut report));
    if let Some(config) = &config {
        survey::certificate(config, lucarne_mint::now_ms(), &mut report);
    }
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    let Some((mut config, roots)) = sound(config.zip(roots), &report) else {
        return failed("nothing was started; correct the configuration first");
    };
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
    let file = (!options.flags.given()).then(|| file(options));
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

fn read(options: &Serve) -> (Option<Config>, Report, Creation) {
    if options.flags.given() {
        let (config, report) = options.flags.read();
        return (config, report, Creation::InFreshDirectory);
    }
    let (config, report) = Config::read(&file(options));
    (config, report, Creation::OnInception)
}

/// Returns the path of the configuration file.
fn file(options: &Serve) -> PathBuf {
    let default = || PathBuf::from("lucarne.yaml");
    options.config.clone().unwrap_or_else(default)
}
