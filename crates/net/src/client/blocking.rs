//! Client for threads without a runtime.

use std::io;

use bytes::Bytes;
use tokio::runtime::Runtime;

use super::{Client, ClientError, CompleteResponse, Validators};

/// Client for synchronous code: the demo, startup, commands.
///
/// May be called and dropped inside another runtime. A call blocks its thread.
#[derive(Debug)]
pub struct BlockingClient {
    client: Client,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        // An ordinary drop panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl BlockingClient {
    /// Creates a client with its own runtime.
    ///
    /// # Errors
    /// If the runtime cannot be created.
    pub fn new(client: Client) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(BlockingClient {
            client,
            runtime: Some(runtime),
        })
    }

    /// Runs `request` to its end on a separate thread, because `block_on` panics on a thread that
    /// runs another runtime.
    fn wait<T: Send>(
        &self,
        request: impl Future<Output = Result<T, ClientError>> + Send,
    ) -> Result<T, ClientError> {
        let Some(runtime) = &self.runtime else {
            unreachable!("a client that is being dropped sends nothing");
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| runtime.block_on(request));
            match waiting.join() {
                Ok(response) => response,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Requests a body, see [`Client::get`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&self, url: &str, limit: usize) -> Result<Bytes, ClientError> {
        self.wait(self.client.get(url, limit))
    }

    /// Requests a changed body, see [`Client::get_if_changed`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_if_changed(
        &self,
        url: &str,
        limit: usize,
        known: &Validators,
    ) -> Result<Option<(Bytes, Validators)>, ClientError> {
        self.wait(self.client.get_if_changed(url, limit, known))
    }

    /// Posts JSON, see [`Client::post_json`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn post_json(
        &self,
        url: &str,
        json: impl Into<Bytes>,
    ) -> Result<CompleteResponse, ClientError> {
        let json: Bytes = json.into();
        self.wait(self.client.post_json(url, json))
    }
}
