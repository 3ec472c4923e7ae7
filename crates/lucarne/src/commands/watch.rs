//! `lucarne watch`: follows and verifies the checkpoints of a log.

mod history;
mod log;
mod screen;
mod through;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use lucarne_load::{PrepareError, Verdict};
use lucarne_scenarios::connection_options::HttpOptions;
use lucarne_scenarios::ct::LogOptions;
use lucarne_scenarios::option_values::TimeSpan;

use self::history::History;
use self::log::{Look, Watched};
use self::screen::Screen;
use self::through::Through;
use super::{duration, failed};
use crate::runtime;
use crate::signals::{Signals, Wish};

/// Exit code for a stale log.
const STALE: u8 = 3;

/// Exit codes, for the help text.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 stopped on request, or --once and all is well; \
                                     3 stale: the newest checkpoint is older than --stale-after; \
                                     99 an invalid checkpoint, missing or invalid tiles, or another \
                                     wrong response; 104 wrong options, or not a log; 110 the log \
                                     does not respond, or limits requests; 2 wrong usage.";

/// Options of `lucarne watch`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// URL of the log (its monitoring prefix)
    #[arg(value_name = "URL")]
    pub url: String,

    /// Also check the log at this URL, its public address behind a cache, and compare the responses
    #[arg(long, value_name = "URL")]
    pub through: Option<String>,

    /// Check once, print the result, and exit
    #[arg(long)]
    pub once: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    /// Time between two checks
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub every: Duration,

    /// Exit with code 3 when the newest checkpoint is older than this
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub stale_after: Option<Duration>,

    /// Origin of the log [default: from its log.v3.json]
    #[arg(long, value_name = "NAME")]
    pub origin: Option<String>,

    /// Public key of the log: base64 of its DER, or a PEM file [default: from its log.v3.json]
    #[arg(long, value_name = "KEY|FILE")]
    pub log_public_key: Option<String>,

    /// Accept any TLS certificate
    #[arg(long)]
    pub insecure: bool,

    /// PEM file of certificates to trust for TLS; may be repeated
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,

    /// Maximum time for one request
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub timeout: Duration,
}

impl Options {
    fn log(&self) -> LogOptions {
        LogOptions {
            log_url: vec![self.url.clone()],
            origin: self.origin.iter().cloned().collect(),
            log_public_key: self.log_public_key.iter().cloned().collect(),
            http: HttpOptions {
                insecure: self.insecure,
                ca: self.ca.clone(),
                ..HttpOptions::default()
            },
            timeout: TimeSpan(self.timeout),
            // Only --stale-after limits the age.
            max_checkpoint_age: TimeSpan::seconds(100 * 365 * 86_400),
            ..LogOptions::default()
        }
    }
}

/// Watches the log until a signal or a final result.
pub(crate) fn run(options: &Options) -> ExitCode {
    match runtime::run_here(watch(options)) {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<PrepareError>() {
            Some(PrepareError::Unreachable(why)) => end(Verdict::Unreachable, why),
            Some(PrepareError::Configuration(why)) => end(Verdict::Configuration, why),
            Some(PrepareError::Faulty { detail, .. }) => end(Verdict::Crossed, detail),
            None => failed(format_args!("{error:#}")),
        },
    }
}

fn end(verdict: Verdict, why: &str) -> ExitCode {
    failed(why);
    ExitCode::from(verdict.exit_code())
}

async fn watch(options: &Options) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let terminal = std::io::stdout().is_terminal();
    let log = options.log();
    let watched = tokio::select! {
        watched = Watched::begin(&log) => watched?,
        () = stopped(&mut signals, terminal) => return Ok(ExitCode::SUCCESS),
    };
    let through = match &options.through {
        Some(url) => Some(Through::begin(&watched, &log, url).await?),
        None => None,
    };
    let mut watch = Watch {
        options,
        watched,
        through,
        screen: Screen::new(options.json),
        history: History::default(),
        not_before: Instant::now(),
    };
    let mut clock = tokio::time::interval(options.every.max(Duration::from_millis(10)));
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = clock.tick() => {}
            () = stopped(&mut signals, terminal) => return Ok(watch.screen.stopped()),
        }
        let ended = tokio::select! {
            ended = watch.step() => ended?,
            () = stopped(&mut signals, terminal) => return Ok(watch.screen.stopped()),
        };
        if let Some(code) = ended {
            return Ok(code);
        }
    }
}

/// State of the command between two checks.
struct Watch<'o> {
    options: &'o Options,
    watched: Watched,
    through: Option<Through>,
    screen: Screen,
    history: History,
    /// Time of the next check, if the log postponed the last one.
    not_before: Instant,
}

impl Watch<'_> {
    /// Checks the log, unless it has postponed the check. Returns the exit code of a final result.
    async fn step(&mut self) -> Result<Option<ExitCode>> {
        if self.not_before <= Instant::now()
            && let Some(code) = self.look().await?
        {
            return Ok(Some(code));
        }
        let now_ms = lucarne_mint::now_ms();
        if let Some(age_ms) = stale(&self.history, self.options.stale_after, now_ms) {
            let age = screen::seconds(age_ms);
            self.screen
                .trouble(&format!("stale: the newest checkpoint is {age} old"));
            return Ok(Some(ExitCode::from(STALE)));
        }
        Ok(self.options.once.then_some(ExitCode::SUCCESS))
    }

    async fn look(&mut self) -> Result<Option<ExitCode>> {
        let mut look = self.watched.look().await;
        if let (Look::Seen(head), Some(through)) = (&look, &mut self.through) {
            look = through.look(&mut self.watched, head).await;
        }
        match look {
            Look::Seen(head) => {
                let sight = self.history.see(head, lucarne_mint::now_ms());
                let spark = self.history.sparkline(screen::SPARK);
                self.screen.sight(&sight, &spark)?;
            }
            Look::Away(why, _) if self.options.once => {
                return Ok(Some(end(Verdict::Unreachable, &why)));
            }
            Look::Away(why, wait) if wait >= self.options.every => {
                self.not_before = Instant::now() + wait;
                let wait = screen::seconds(wait.as_millis() as u64);
                self.screen
                    .trouble(&format!("{why}; the next check is in {wait}"));
            }
            Look::Away(why, _) => self.screen.trouble(&why),
            Look::Wrong(findings) => {
                for finding in &findings {
                    self.screen.trouble(finding);
                }
                return Ok(Some(ExitCode::from(Verdict::Crossed.exit_code())));
            }
        }
        Ok(None)
    }
}

/// Returns the age of the newest checkpoint, if it exceeds `after`.
fn stale(history: &History, after: Option<Duration>, now_ms: u64) -> Option<u64> {
    let age_ms = history.age_ms(now_ms)?;
    let stale = u128::from(age_ms) > after?.as_millis();
    stale.then_some(age_ms)
}

/// Waits for a signal to stop. SIGHUP means that the terminal, if there was one, was closed.
async fn stopped(signals: &mut Signals, terminal: bool) {
    loop {
        match signals.next().await {
            Wish::Stop(_) => return,
            Wish::Reread if terminal => return,
            Wish::Reread | Wish::Successor => {}
        }
    }
}
