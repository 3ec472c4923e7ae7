//! Submissions of the demo to its own log, over HTTP.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use lucarne_mint::{Authority, Chain, KeyPair, KeyType, LeafOptions, Poison, Time};
use lucarne_net::{BlockingClient, Client};

use super::cosigners::Cosigners;
use super::home::Home;
use super::screen::Screen;
use crate::config::{LogSettings, rfc3339};

/// Number of submissions at the start.
const FIRST: usize = 24;
/// Timeout of a request, and of the wait until the log accepts the first submission.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(20);

/// Submitter of the demo, with the addresses of the log.
pub(super) struct Traffic {
    home: Home,
    client: BlockingClient,
    /// URL of the log, with a trailing slash.
    url: String,
    base: String,
    origin: String,
    window: (u64, u64),
}

/// Chain, and the endpoint that accepts it.
struct Submission {
    endpoint: &'static str,
    chain: Chain,
}

impl Traffic {
    /// Creates a submitter. `base` is the URL of the server; the path of the log is the same there.
    pub(super) fn new(home: Home, log: &LogSettings, base: String) -> Result<Self> {
        let origin = log.submission.value.origin();
        let path = origin.split_once('/').map_or("", |(_, path)| path);
        Ok(Traffic {
            url: format!("{base}/{path}/"),
            home,
            base,
            origin: log.origin.clone(),
            client: BlockingClient::new(Client::of_system(ACCEPT_TIMEOUT))?,
            window: (
                log.policy.not_after_start.unwrap_or(0),
                log.policy.not_after_limit.unwrap_or(u64::MAX),
            ),
        })
    }

    /// Returns the log's URL, with a trailing slash.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the path of the log's URL.
    pub(super) fn path(&self) -> String {
        self.url[self.base.len()..].to_owned()
    }

    /// Returns the directory of the demo.
    pub(super) fn home(&self) -> &Path {
        self.home.directory()
    }

    /// Submits `rate` chains per second. Each chain is retried until the log returns an SCT; `took`
    /// receives the time of the SCT.
    pub(super) fn go_on(&self, rate: u32, took: impl Fn(Instant)) -> Result<()> {
        let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256)?);
        for number in 0.. {
            let submission = self.submission(number, &key)?;
            while self.submit(&submission).is_err() {
                // Pause between two attempts.
                std::thread::sleep(Duration::from_millis(50));
            }
            took(Instant::now());
            // Pause between two submissions.
            std::thread::sleep(Duration::from_secs(1) / rate);
        }
        Ok(())
    }

    /// Submits a few chains, prints suggestions to explore, and continues to submit.
    pub(super) fn show(
        &self,
        screen: &Screen,
        rate: u32,
        cosigners: Option<&Cosigners>,
    ) -> Result<()> {
        let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256)?);
        self.wait(&self.submission(0, &key)?)?;
        let directory = self.home.directory().display();
        screen.done(
            "authorities",
            &format!("RSA-2048, P-256 and P-384 below one root, in {directory}/ca"),
        );
        let (start, limit) = (rfc3339(self.window.0), rfc3339(self.window.1));
        screen.done(
            "log",
            &format!("{}, notAfter from {start} to {limit}", self.home.log_name()),
        );
        let slowest = self.submit_all(1..FIRST, &key)?.as_millis();
        let detail = format!(
            "{FIRST} chains, half of them precertificates; each got its SCT within {slowest} ms"
        );
        screen.done("submitted", &detail);
        if let Some(cosigners) = cosigners {
            let sizes = cosigners.wait(&self.client, &self.origin, FIRST as u64)?;
            for ((name, _), size) in cosigners.0.iter().zip(sizes) {
                screen.done("cosigned", &format!("{size} entries by {name}"));
            }
        }
        self.invite(screen, &key, cosigners)?;
        for number in FIRST.. {
            let Some(pause) = Duration::from_secs(1).checked_div(rate) else {
                break;
            };
            std::thread::sleep(pause);
            // A draining server ends the demo without an error.
            if self.submit(&self.submission(number, &key)?).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Submits until the log accepts the chain, because the log may still be opening.
    fn wait(&self, first: &Submission) -> Result<()> {
        let deadline = Instant::now() + ACCEPT_TIMEOUT;
        while let Err(error) = self.submit(first) {
            if Instant::now() > deadline {
                return Err(error).context("the log does not accept submissions");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Prints URLs and commands for new users.
    fn invite(
        &self,
        screen: &Screen,
        key: &Arc<KeyPair>,
        cosigners: Option<&Cosigners>,
    ) -> Result<()> {
        let certificate = self.submission(0, key)?;
        let precertificate = self.submission(1, key)?;
        let chain = self
            .home
            .write("chain.json", &certificate.chain.to_json())?;
        let prechain = self
            .home
            .write("prechain.json", &precertificate.chain.to_json())?;
        let url = &self.url;
        screen.heading("Look");
        screen.line("page", url);
        screen.line("checkpoint", &format!("{url}checkpoint"));
        screen.line("log.v3.json", &format!("{url}log.v3.json"));
        screen.line("metrics", &format!("{}/metrics", self.base));
        screen.line("health", &format!("{}/health", self.base));
        if let Some(Cosigners([(_, witness), (_, mirror)])) = cosigners {
            screen.line("cosigned", &format!("{}/", self.base));
            screen.line("witness", witness);
            screen.line("mirror", mirror);
        }
        screen.heading("Try");
        screen.command(
            &format!("curl -d @{} {url}ct/v1/add-chain", short(&chain)),
            "submit a certificate; a repetition returns the same SCT",
        );
        screen.command(
            &format!("curl -d @{} {url}ct/v1/add-pre-chain", short(&prechain)),
            "submit a precertificate",
        );
        screen.command(
            &format!("curl -s {url}checkpoint"),
            "the signed tree with this certificate",
        );
        screen.command(
            &format!(
                "{} load ct-write --log-url {url} --roots {} --rate 500 --duration 30s",
                myself(),
                short(&self.home.load_authorities())
            ),
            "load the log, and verify each SCT and tree",
        );
        screen.command(
            &format!(
                "{} serve -c {}",
                myself(),
                short(&self.home.configuration())
            ),
            "run the same log without the demo",
        );
        screen.end();
        Ok(())
    }

    /// Submits several chains concurrently, and returns the longest time to an SCT.
    fn submit_all(&self, numbers: Range<usize>, key: &Arc<KeyPair>) -> Result<Duration> {
        let submissions = numbers.map(|number| self.submission(number, key));
        let submissions = submissions.collect::<Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            let submit = |submission| scope.spawn(move || self.submit(submission));
            let threads: Vec<_> = submissions.iter().map(submit).collect();
            let mut slowest = Duration::ZERO;
            for thread in threads {
                let took = thread
                    .join()
                    .map_err(|_| anyhow!("a thread that submits certificates panicked"))??;
                slowest = slowest.max(took);
            }
            Ok(slowest)
        })
    }

    /// Submits a chain, and returns the time to its SCT.
    fn submit(&self, submission: &Submission) -> Result<Duration> {
        let url = format!("{}ct/v1/{}", self.url, submission.endpoint);
        let start = Instant::now();
        let response = self.client.post_json(&url, submission.chain.to_json())?;
        let (status, body) = (response.status, String::from_utf8_lossy(&response.body));
        ensure!(
            status.as_u16() == 200,
            "{url} responded with {status}: {body}"
        );
        Ok(start.elapsed())
    }

    /// Creates a chain from each authority in turn. Every second chain has a precertificate.
    fn submission(&self, number: usize, key: &Arc<KeyPair>) -> Result<Submission> {
        let authorities = &self.home.authorities.intermediates;
        let authority = &authorities[number / 2 % authorities.len()];
        let precertificate = number % 2 == 1;
        let mut options = LeafOptions::with_key(names()?, Arc::clone(key));
        options.not_after = self.expiry(options.not_before);
        if precertificate {
            options.poison = Some(Poison::Last);
        } else {
            options.scts = 2;
        }
        Ok(Submission {
            endpoint: if precertificate {
                "add-pre-chain"
            } else {
                "add-chain"
            },
            chain: issue(authority, &options)?,
        })
    }

    /// Returns an expiry after 90 days, limited to the log's window.
    fn expiry(&self, not_before: Time) -> Time {
        let last = i64::try_from(self.window.1 / 1000).unwrap_or(i64::MAX) - 1;
        let wanted = not_before.plus_days(90);
        if wanted.unix() > last {
            Time::from_unix(last)
        } else {
            wanted
        }
    }
}

fn issue(authority: &Authority, options: &LeafOptions) -> Result<Chain> {
    Ok(authority.chain(authority.issue(options)?))
}

/// Returns random names of an imaginary business.
fn names() -> Result<Vec<String>> {
    const FIRST: [&str; 16] = [
        "harbour", "north", "silver", "green", "old-town", "river", "blue", "sunny", "maple",
        "stone", "lakeside", "amber", "little", "golden", "central", "quiet",
    ];
    const SECOND: [&str; 16] = [
        "bakery", "cycles", "books", "dental", "garage", "flowers", "coffee", "travel", "music",
        "school", "garden", "records", "cinema", "pottery", "sailing", "clinic",
    ];
    let mut random = [0u8; 4];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| anyhow::anyhow!("cannot choose names: the system has no random numbers"))?;
    let [first, second, high, low] = random;
    let number = u16::from_be_bytes([high, low]);
    let first = FIRST[usize::from(first) % FIRST.len()];
    let second = SECOND[usize::from(second) % SECOND.len()];
    let domain = format!("{first}-{second}-{number}.example");
    Ok(vec![
        domain.clone(),
        format!("www.{domain}"),
        format!("mail.{domain}"),
    ])
}

/// Returns the path relative to the working directory if possible, with quotes if necessary.
fn short(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let relative = here
        .ok()
        .and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
    let path = relative
        .unwrap_or_else(|| path.to_owned())
        .display()
        .to_string();
    if path.contains(' ') {
        format!("'{path}'")
    } else {
        path
    }
}

/// Returns the command that runs this program.
fn myself() -> String {
    let program = std::env::current_exe();
    program.map_or_else(|_| "lucarne".to_owned(), |program| short(&program))
}
