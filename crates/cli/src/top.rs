//! `carve top`: a fleet in a terminal, again and again or once.

use crate::args::MachineArgs;
use crate::asked_of::AskedOf;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use carve_fleet_picture::Picture;
use carve_top::{Key, Sort, View, draw, once};
use clap::{Args, ValueEnum};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// How long keys are waited for before the screen is drawn anew.
const BEAT: Duration = Duration::from_millis(100);
/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than a fleet's picture has.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print it once, and end
    #[arg(long)]
    once: bool,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Name)]
    sort: Order,
    /// Only lines with all of these words: node, product, pod, workload, way of sharing
    #[arg(long, value_name = "WORDS", default_value = "")]
    filter: String,
    /// Where a dashboard is, such as http://localhost:7411; without it the carve up that runs here
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// File with the token of the dashboard, where it needs one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// By node and GPU
    Name,
    /// Busiest first
    Use,
    /// Held and not used first
    Waste,
    /// Most memory first
    Memory,
    /// Most held back first
    Throttled,
}

impl Order {
    fn sort(self) -> Sort {
        match self {
            Order::Name => Sort::Name,
            Order::Use => Sort::Use,
            Order::Waste => Sort::Waste,
            Order::Memory => Sort::Memory,
            Order::Throttled => Sort::Throttled,
        }
    }
}

/// Where pictures come from.
#[derive(Clone)]
struct Source {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
}

impl Source {
    fn picture(&self) -> Result<Picture, String> {
        let mut request = self.agent.get(format!("{}/api/v1/picture", self.url));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| error.to_string())?;
        let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_string();
        let mut value: serde_json::Value = text
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))?;
        serde_json::from_value(value["picture"].take()).map_err(|error| error.to_string())
    }
}

fn source(machine: &MachineArgs, args: &TopArgs) -> Result<Source, Failure> {
    let url = match &args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let here = AskedOf { kubeconfig: None, local: true };
            let failed = |failure: Failure| {
                failure.hint("start one in another terminal (carve up), or name a dashboard with --url")
            };
            here.up(machine).map_err(failed)?.map(|up| up.url).unwrap_or_default()
        }
    };
    let token = args.token_file.as_ref().map(|file| input::read(file)).transpose()?;
    let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    Ok(Source { url, token: token.map(|text| text.trim().to_owned()), agent })
}

/// Shows it.
pub(crate) fn top(machine: &MachineArgs, args: &TopArgs) -> Outcome {
    let source = source(machine, args)?;
    let failed = |why: String| Failure::new(format!("{}: {why}", source.url));
    let first = source.picture().map_err(failed)?;
    if args.once {
        return print::out(&once(&first, args.sort.sort(), &args.filter));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let words = "this is no terminal, and there is nothing to draw on";
        return Err(
            Failure { code: UNREADABLE, ..Failure::new(words) }.hint("carve top --once prints it as text")
        );
    }
    let (send, pictures) = channel();
    let looking = source.clone();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            if send.send(looking.picture()).is_err() {
                return;
            }
        }
    });
    let view = View { sort: args.sort.sort(), filter: args.filter.clone(), ..View::default() };
    let shown = show(&mut ratatui::init(), first, view, &pictures);
    // The terminal is what it was before, whatever happened.
    ratatui::restore();
    shown.map_err(|error| Failure::new(format!("the terminal does not do what it is told: {error}")))
}

type Looks = Receiver<Result<Picture, String>>;

fn show(
    terminal: &mut DefaultTerminal,
    first: Picture,
    mut view: View,
    looks: &Looks,
) -> std::io::Result<()> {
    let (mut picture, mut trouble) = (first, None);
    let mut size = (0, 0);
    loop {
        while let Ok(look) = looks.try_recv() {
            match look {
                Ok(newer) => (picture, trouble) = (newer, None),
                Err(why) => trouble = Some(format!("this is not the newest: {why}")),
            }
        }
        terminal.draw(|frame| size = draw(frame, &picture, &view, trouble.as_deref()))?;
        if event::poll(BEAT)?
            && let Some(key) = key(&event::read()?)
            && !view.press(key, size.0, size.1)
        {
            return Ok(());
        }
    }
}

fn key(event: &Event) -> Option<Key> {
    let Event::Key(pressed) = event else { return None };
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    Some(match pressed.code {
        KeyCode::Char('c') if pressed.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
