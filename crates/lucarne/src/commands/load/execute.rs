//! Execution of a run: live view, signals, reports.

use std::io::IsTerminal;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "tui")]
use lucarne_load::ui;
use lucarne_load::{Outcome, Run, Running, Summary, Verdict, lines};

use super::exit_code::{exit, misconfigured};
use super::live_metrics::{self, Live};
use super::{command, output};
use crate::runtime;
use crate::signals::{ONE_WISH, Signals, Wish};

/// Executes the run to its end, and writes its reports.
pub(super) fn execute(run: Run, output: &output::Flags) -> ExitCode {
    if let Err(why) = run.check_thresholds() {
        return misconfigured(why);
    }
    if let Err(why) = run.check_allowed() {
        return misconfigured(why);
    }
    let baseline = match output.report.before_run() {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    let live = match output.live.open() {
        Ok(live) => live,
        Err(why) => return misconfigured(why),
    };
    if let Some(address) = live
        .listener
        .as_ref()
        .filter(|_| !output.quiet)
        .and_then(|listener| listener.local_addr().ok())
    {
        noteln!("metrics: http://{address}/metrics");
    }
    let outcome = perform(run, live, |running| show(running, output));
    conclude(outcome, &output.report, baseline.as_ref())
}

/// Writes the reports of a run, and returns its exit code.
pub(super) fn conclude(
    mut outcome: Outcome,
    report: &output::Report,
    baseline: Option<&Summary>,
) -> ExitCode {
    // A run without load has no figures to print, unless the target has failed a check.
    let print = outcome.error.is_none()
        || outcome.summary.started > 0
        || outcome.verdict == Verdict::Crossed;
    if let Some(why) = outcome.error {
        super::super::failed(why);
    }
    let baseline = baseline.filter(|_| print);
    let verdict = report.write(&mut outcome.summary, baseline, outcome.verdict, print);
    if print {
        explain(verdict);
    }
    exit(verdict)
}

/// Executes the run to its end, with these receivers of its metrics.
pub(super) fn perform(
    mut run: Run,
    live: Live,
    show: impl FnOnce(&Running) -> std::io::Result<()>,
) -> Outcome {
    // Each connection needs an open file.
    runtime::raise_open_files();
    run.command = command::line();
    run.version = env!("CARGO_PKG_VERSION").to_owned();
    run.exposed = live.is_some();
    let running = run.start();
    thread::scope(|scope| {
        let (listens, ready) = channel();
        scope.spawn(|| obey_signals(&running, listens, live));
        // Without the handlers, SIGHUP of a closed terminal would end the process. An error means
        // that there are no handlers, which `obey_signals` has reported.
        let _ = ready.recv();
        if let Err(error) = show(&running) {
            errln!("lucarne: cannot show the progress of the test: {error}");
        }
    });
    running.wait()
}

fn show(running: &Running, output: &output::Flags) -> std::io::Result<()> {
    if output.quiet {
        return Ok(());
    }
    #[cfg(feature = "tui")]
    if !output.no_ui && std::io::stdout().is_terminal() {
        // A terminal without support for drawing still shows lines.
        if ui::live(running).is_ok() {
            return Ok(());
        }
    }
    lines::lines(running, &mut std::io::stderr())
}

/// Maximum time from the second signal to the end of a run.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Handles signals: the first one lets running iterations finish, the second one cancels them, the
/// third one ends the process.
///
/// Sends to `listens` as soon as signals no longer end the process by themselves. Serves and
/// exports the metrics of the run.
fn obey_signals(running: &Running, listens: Sender<()>, live: Live) {
    let listening = runtime::run_here(async move {
        let exporting = live.export(running);
        let serving = async {
            match live.listener {
                Some(listener) => live_metrics::serve(listener, running).await,
                None => std::future::pending().await,
            }
        };
        let mut serving = pin!(serving);
        let mut signals = Signals::listen()?;
        // The receiver waits for this message.
        let _ = listens.send(());
        let mut snapshots = running.snapshots();
        let mut last: Option<Instant> = None;
        let mut count = 0;
        loop {
            tokio::select! {
                wish = signals.next() => {
                    let again = last.is_none_or(|last| last.elapsed() > ONE_WISH);
                    if let (Wish::Stop(name), true) = (wish, again) {
                        last = Some(Instant::now());
                        count += 1;
                        stop(running, name, count);
                    }
                }
                served = &mut serving => served?,
                changed = snapshots.changed() => if changed.is_err() {
                    if let Some(exporting) = exporting {
                        exporting.finish().await;
                    }
                    return Ok(());
                }
            }
        }
    });
    if let Err(error) = listening {
        warnln!("lucarne: cannot listen for signals, so a signal ends the test at once: {error:#}");
    }
}

fn stop(running: &Running, name: &str, count: u32) {
    if count > 2 {
        abandon();
    }
    let what = match count {
        1 => "no new iterations begin; a second signal cancels the running ones",
        _ => "cancelling the running iterations; another signal ends at once, without a summary",
    };
    // On a terminal, the live view shows this message.
    if cfg!(not(feature = "tui")) || !std::io::stdout().is_terminal() {
        noteln!("{name}: {what}");
    }
    running.stop();
    if count == 2 {
        // Iterations that are still running cannot be part of a summary.
        thread::spawn(|| {
            thread::sleep(AT_ONCE);
            abandon();
        });
    }
}

/// Ends the process.
pub(super) fn abandon() -> ! {
    #[cfg(feature = "tui")]
    ui::restore();
    std::process::exit(i32::from(Verdict::Interrupted.exit_code()))
}

/// Prints the verdict and the exit code, unless the run has passed.
fn explain(verdict: Verdict) {
    if verdict != Verdict::Passed {
        errln!("lucarne: {verdict} (exit code {})", verdict.exit_code());
    }
}
