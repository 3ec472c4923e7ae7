use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::{Iteration, VirtualUser};
use lucarne_mint::KeyPair;

use super::account::Account;
use super::certificate::IssuedCertificate;
use super::client::{AcmeClient, Failed, fail};
use super::directory::Directory;
use super::enrol::Enrolment;
use super::options::{AccountReuse, Flow, KeyAlgorithm, Until};
use super::probe::{probe, renewal_info};
use super::registration;
use super::shared_state::SharedState;
use crate::random::Random;

/// A user: its connection, and its objects at the server.
pub(super) struct AcmeUser {
    client: AcmeClient,
    shared: Arc<SharedState>,
    number: u64,
    /// Number of enrolments so far.
    sequence: u64,
    random: Random,
    account: Option<Arc<Account>>,
    /// RSA key of the user, generated once because that takes longer than an enrolment.
    rsa: Option<Arc<KeyPair>>,
    /// Certificate whose renewal information is requested, and its directory.
    known: Option<(Directory, IssuedCertificate)>,
}

#[async_trait]
impl VirtualUser for AcmeUser {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        // The failure has been recorded.
        let _ = match self.shared.options.flow {
            Flow::Probe => {
                let (shared, random) = (self.shared.clone(), &mut self.random);
                probe(&mut self.client, iteration, || pause(&shared, random)).await
            }
            Flow::Burst => probe(&mut self.client, iteration, || Duration::ZERO).await,
            Flow::RenewalInfo => self.ask(iteration).await,
            Flow::Enrol => {
                let outcome = self.enrol(iteration).await;
                tell(iteration, &outcome);
                outcome
            }
        };
    }

    fn cut_off(&mut self, iteration: &mut Iteration) {
        let enrolling = match self.shared.options.flow {
            Flow::Enrol => true,
            Flow::RenewalInfo => self.shared.ids.is_empty() && self.known.is_none(),
            Flow::Probe | Flow::Burst => false,
        };
        if enrolling {
            tell(iteration, &Err::<(), _>(Failed));
        }
    }
}

impl AcmeUser {
    pub(super) fn new(shared: Arc<SharedState>, number: u64, client: AcmeClient) -> Self {
        Self {
            client,
            number,
            sequence: 0,
            random: Random::new(shared.seed, number),
            account: None,
            rsa: None,
            known: None,
            shared,
        }
    }

    /// Requests renewal information of a configured certificate, or of a certificate that this user
    /// enrolled for.
    async fn ask(&mut self, iteration: &mut Iteration) -> Result<(), Failed> {
        if let Some(id) = self.shared.given_id(iteration.number()) {
            let directory = match self.shared.directory.get() {
                Some(directory) => directory.clone(),
                None => {
                    let read = self.client.directory(iteration).await?;
                    self.shared.directory.get_or_init(|| read).clone()
                }
            };
            let at = directory.renewal_info.as_deref();
            return renewal_info(&mut self.client, iteration, at, &id).await;
        }
        if self.known.is_none() {
            let directory = self.client.directory(iteration).await?;
            let issued = self.issue(iteration, &directory).await;
            tell(iteration, &issued);
            self.known = Some((directory, issued?));
        }
        if let Some((directory, issued)) = &self.known {
            let at = directory.renewal_info.as_deref();
            renewal_info(&mut self.client, iteration, at, &issued.renewal_id).await?;
        }
        Ok(())
    }

    async fn issue(
        &mut self,
        iteration: &mut Iteration,
        directory: &Directory,
    ) -> Result<IssuedCertificate, Failed> {
        let account = self.account(iteration, directory).await?;
        let (names, key) = (self.new_names(), self.key(iteration)?);
        let mut enrolment = Enrolment {
            client: &mut self.client,
            directory,
            account: &account,
            names: &names,
            key: &key,
            idle: Duration::ZERO,
            names_validated: false,
        };
        enrolment.certificate(iteration, None).await
    }

    /// Runs an enrolment up to the configured step.
    async fn enrol(&mut self, iteration: &mut Iteration) -> Result<(), Failed> {
        let shared = self.shared.clone();
        let until = shared.options.until;
        let directory = self.client.directory(iteration).await?;
        let account = self.account(iteration, &directory).await?;
        let names = self.new_names();
        let (key, next_key) = (self.key(iteration)?, self.key(iteration)?);
        let mut enrolment = Enrolment {
            client: &mut self.client,
            directory: &directory,
            account: &account,
            names: &names,
            key: &key,
            idle: Duration::ZERO,
            names_validated: false,
        };
        let issued = enrolment.certificate(iteration, None).await?;
        if until < Until::RenewalInfo {
            return Ok(());
        }
        let at = directory.renewal_info.as_deref();
        let random = &mut self.random;
        // A real client runs the following parts days later.
        iteration.pause(pause(&shared, random)).await;
        renewal_info(enrolment.client, iteration, at, &issued.renewal_id).await?;
        if until < Until::Renewal {
            return Ok(());
        }
        iteration.pause(pause(&shared, random)).await;
        enrolment.key = &next_key;
        // A server without renewal information does not know `replaces`.
        let replaces = at.map(|_| &issued);
        enrolment.certificate(iteration, replaces).await?;
        if until < Until::Revocation {
            return Ok(());
        }
        iteration.pause(pause(&shared, random)).await;
        enrolment.revoke(iteration, &issued).await
    }

    async fn account(
        &mut self,
        iteration: &mut Iteration,
        directory: &Directory,
    ) -> Result<Arc<Account>, Failed> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let shared = self.shared.clone();
        let account = match shared.options.accounts {
            AccountReuse::Own => {
                Arc::new(registration::register(&mut self.client, iteration, directory).await?)
            }
            AccountReuse::Shared => {
                let register = async || {
                    let account = registration::register(&mut self.client, iteration, directory);
                    account.await.map(Arc::new)
                };
                shared.account.get_or_try_init(register).await?.clone()
            }
        };
        self.account = Some(account.clone());
        Ok(account)
    }

    fn key(&mut self, iteration: &mut Iteration) -> Result<Arc<KeyPair>, Failed> {
        let kind = self.shared.options.key;
        if let Some(key) = &self.rsa {
            return Ok(key.clone());
        }
        let key = KeyPair::generate(kind.kind()).map(Arc::new);
        let key = key.map_err(|error| fail(iteration, "signing", error))?;
        self.rsa = (kind == KeyAlgorithm::Rsa2048).then(|| key.clone());
        Ok(key)
    }

    /// Returns names that were never ordered before.
    fn new_names(&mut self) -> Vec<String> {
        let shared = &self.shared;
        self.sequence += 1;
        let (run, user, sequence) = (shared.run, self.number, self.sequence);
        let domain = shared.options.domain.to_lowercase();
        (0..shared.options.names)
            .map(|name| format!("load-{run:08x}-{user}-{sequence}-{name}.{domain}"))
            .collect()
    }
}

/// Records the check `enrolled`, which fails for any unfinished enrolment.
fn tell<T>(iteration: &Iteration, outcome: &Result<T, Failed>) {
    let tags = iteration.base();
    iteration.rate(tags, "acme_enrolled", outcome.is_ok());
    let verdict = outcome.as_ref().map(|_| ());
    let verdict = verdict.map_err(|_| "the enrolment did not finish: see the errors".to_owned());
    iteration.check(tags, "enrolled", verdict);
}

/// Returns a random pause of 50% to 150% of the configured time.
fn pause(shared: &SharedState, random: &mut Random) -> Duration {
    let think = shared.options.think.0;
    let spread = random.below(u64::try_from(think.as_nanos()).unwrap_or(u64::MAX));
    think / 2 + Duration::from_nanos(spread)
}
