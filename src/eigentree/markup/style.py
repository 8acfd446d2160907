"""How pages look: calm, in light and dark, on paper and on a phone."""

from __future__ import annotations

from eigentree.markup.html import Html, element

__all__ = ["PALETTE", "STYLE", "fragment", "state_colours"]

PALETTE = {
    "paper": ("#fcfbf8", "#14181c"),
    "card": ("#f5f2eb", "#1c2227"),
    "ink": ("#1f262c", "#e7e4dd"),
    "muted": ("#545e67", "#a9b2b9"),
    "rule": ("#dcd7cb", "#343c43"),
    "accent": ("#0a5688", "#86c3ee"),
    "tint": ("#c9dff0", "#1d4668"),
    "hidden": ("#fae6bb", "#41351a"),
    "hidden-line": ("#8d5a00", "#e2ae4f"),
    "column": ("#ffffff", "#1a2027"),
    "column-line": ("#0a5688", "#86c3ee"),
    "edge": ("#65717b", "#8b97a1"),
    "alert": ("#9a2f12", "#ff9d7c"),
    "alert-paper": ("#fbeae3", "#33211b"),
    "green": ("#00795a", "#4fc9a4"),
    "pink": ("#a3477a", "#e79cc3"),
}
"""Every colour of pages and plots by its role, in light and in dark; plots are light."""

LIGHT, DARK = (";".join(f"--{role}:{pair[shade]}" for role, pair in PALETTE.items()) for shade in (0, 1))

VIRIDIS = ("440154", "414487", "2a788e", "22a884", "7ad151", "fde725")


def state_colours(count: int) -> list[str]:
    """Return a colour for each hidden state, from dark to light, as people with any colour-blindness see them."""
    anchors = [[int(colour[place : place + 2], 16) for place in (0, 2, 4)] for colour in VIRIDIS]
    found = []
    for state in range(count):
        low, share = divmod(state * (len(anchors) - 1) / max(count - 1, 1), 1)
        pair = anchors[int(low)], anchors[min(int(low) + 1, len(anchors) - 1)]
        found.append("#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(*pair, strict=True)))
    return found


RULES = """
.eigentree{color-scheme:light dark;LIGHT;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;
-webkit-text-size-adjust:100%;text-rendering:optimizeLegibility}
@media (prefers-color-scheme:dark){.eigentree{DARK}}
body.eigentree{margin:0;padding:0 max(1rem,calc(50vw - 30rem)) 4rem;overflow-wrap:break-word}
div.eigentree{padding:.75rem 1rem;border-radius:.4rem;overflow-wrap:break-word}
.eigentree h1,.eigentree h2,.eigentree h3{font-family:Charter,"Bitstream Charter","Iowan Old Style",
"Source Serif 4","Palatino Linotype",Palatino,Georgia,"Liberation Serif",serif;font-weight:600;line-height:1.2;
text-wrap:balance}
.eigentree h1{font-size:clamp(1.75rem,1.3rem + 2.2vw,2.6rem);margin:0 0 .5rem;letter-spacing:-.01em}
.eigentree h2{font-size:1.55rem;margin:0 0 .4rem}
.eigentree h3{font-size:1.15rem;margin:2rem 0 .4rem}
.eigentree h4{font-size:.9375rem;font-weight:600;margin:.6rem 0 .2rem}
.eigentree p{margin:.4rem 0 1rem;max-width:42rem}
.eigentree a{color:var(--accent)}
.eigentree :focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:2px}
.eigentree .skip{position:absolute;left:-100vw;top:.5rem;background:var(--paper);padding:.5rem 1rem}
.eigentree .skip:focus{left:.5rem}
.eigentree header{padding:3rem 0 1rem}
.eigentree .kicker{color:var(--muted);font-size:.875rem;margin:0 0 .75rem}
.eigentree .kicker span{white-space:nowrap}
.eigentree .how{color:var(--muted)}
.eigentree section{padding:2.5rem 0 0;margin-top:2.5rem;border-top:1px solid var(--rule)}
.eigentree nav ul{list-style:none;margin:1.5rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;
font-size:.9375rem}
.eigentree nav a{display:inline-block;padding:.25rem 0}
.eigentree .glance{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(12rem,100%),1fr));gap:.75rem;
margin:1.5rem 0 0}
.eigentree .glance div{background:var(--card);border-radius:.5rem;padding:.8rem 1rem}
.eigentree .glance dt{color:var(--muted);font-size:.8125rem;line-height:1.35}
.eigentree .glance dd{margin:.15rem 0 0}
.eigentree .glance strong{display:block;font-size:1.5rem;font-weight:600;line-height:1.25;
font-variant-numeric:tabular-nums}
.eigentree .glance small{display:block;color:var(--muted);font-size:.8125rem;line-height:1.35;margin-top:.15rem}
.eigentree .facts{margin:1rem 0;font-size:.9375rem}
.eigentree .facts div{display:grid;grid-template-columns:minmax(6rem,14rem) 1fr;gap:0 1rem;padding:.3rem 0;
border-bottom:1px solid var(--rule)}
.eigentree .facts dt{color:var(--muted)}
.eigentree .facts dd{margin:0;min-width:0}
.eigentree figure{margin:1.25rem 0}
.eigentree figcaption{color:var(--muted);font-size:.875rem;max-width:42rem;margin:.4rem 0}
.eigentree .pictures{display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:flex-start}
.eigentree .pictures>*{margin:0;max-width:100%}
.eigentree .scroll{overflow:auto;max-width:100%}
.eigentree .pictures .scroll{max-height:44rem}
.eigentree .beside{display:flex;flex-wrap:wrap;gap:0 2.5rem}
.eigentree .beside>*{flex:1 1 24rem;min-width:0;max-width:100%}
.eigentree .uneven>:first-child{flex:0 1 21rem}
.eigentree .natural>*{flex:0 1 auto;min-width:min(20rem,100%)}
.eigentree .natural figcaption{width:0;min-width:100%}
.eigentree svg{display:block;overflow:visible;max-width:100%;height:auto}
.eigentree .apart{padding-left:1.1rem;margin:.3rem 0 .9rem;max-width:42rem}
.eigentree svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;
fill:var(--ink);font-variant-numeric:tabular-nums}
.eigentree svg>text{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
.eigentree svg text.m{fill:var(--muted)}
.eigentree table{border-collapse:collapse;font-size:.875rem;line-height:1.4;font-variant-numeric:tabular-nums;
margin:.5rem 0}
.eigentree caption{text-align:left;color:var(--muted);padding:.25rem .6rem .4rem 0;caption-side:top}
.eigentree th,.eigentree td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--rule);
vertical-align:baseline;font-weight:400}
.eigentree thead th{color:var(--muted);font-size:.8125rem;vertical-align:bottom;border-bottom-color:var(--muted)}
.eigentree tr>:first-child{padding-left:0}
.eigentree .n{text-align:right;white-space:nowrap}
.eigentree thead .n{white-space:normal}
.eigentree .p{display:block;padding:0 .4rem;min-width:2.4rem;text-align:right;white-space:nowrap;
background:linear-gradient(90deg,var(--tint) var(--p),transparent var(--p))}
.eigentree .i{position:relative}
.eigentree .i::after{content:"";position:absolute;bottom:0;height:2px;left:var(--l);
width:max(2px,calc(var(--h) - var(--l)));background:var(--accent)}
.eigentree .q{padding:0 .4rem;color:var(--muted)}
.eigentree .faint{color:var(--muted)}
.eigentree .profile .label{position:sticky;left:0;background:var(--paper)}
.eigentree .profile tbody tr:first-child>*{border-top:1px solid var(--rule)}
.eigentree .profile td,.eigentree .profile tbody th{border-bottom:0;padding-top:.1rem;padding-bottom:.1rem}
.eigentree .profile tbody::before{content:"";display:block;height:.45rem}
.eigentree .profile .name{font-weight:600;padding-top:.3rem;white-space:normal}
.eigentree .profile .name small{font-weight:400;color:var(--muted);font-size:.8125rem}
.eigentree .profile .label{min-width:5.5rem;max-width:11rem;padding-left:.9rem}
.eigentree details{margin:.5rem 0 1rem}
.eigentree summary{cursor:pointer;color:var(--accent);font-size:.875rem;padding:.3rem 0;width:fit-content}
.eigentree .notes{padding:0;list-style:none;margin:1rem 0}
.eigentree .notes li{background:var(--alert-paper);border-left:3px solid var(--alert);padding:.6rem 1rem;
margin:.5rem 0;border-radius:0 .4rem .4rem 0;max-width:44rem;font-size:.9375rem}
.eigentree .anomalies{padding:0;list-style:none;display:grid;
grid-template-columns:repeat(auto-fill,minmax(min(26rem,100%),1fr));column-gap:2.5rem}
.eigentree .anomalies>li{padding:.8rem 0;border-bottom:1px solid var(--rule)}
.eigentree .anomalies h3{margin:0 0 .3rem;font-size:1.05rem}
.eigentree .anomalies h3 small{font:.875rem system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",
sans-serif;margin-left:.4rem}
.eigentree .anomalies ul{margin:.2rem 0 0;padding-left:1.1rem}
.eigentree .anomalies small,.eigentree .aside{color:var(--muted);font-size:.875rem}
.eigentree footer{margin-top:3rem;border-top:1px solid var(--rule);padding-top:1rem;color:var(--muted);
font-size:.875rem}
@media (max-width:30rem){.eigentree header{padding-top:2rem}.eigentree .facts div{grid-template-columns:1fr}
.eigentree .glance{grid-template-columns:1fr 1fr}.eigentree .glance div{padding:.65rem .75rem}
.eigentree th,.eigentree td{padding-left:.3rem;padding-right:.3rem}.eigentree .p{padding:0 .15rem;min-width:2rem}
.eigentree .profile .label{min-width:4rem;padding-left:.4rem}}
@media print{.eigentree{LIGHT;background:#fff;print-color-adjust:exact;-webkit-print-color-adjust:exact}
body.eigentree{padding:0;font-size:10pt}.eigentree nav,.eigentree .skip,.eigentree details:not([open]){display:none}
.eigentree .scroll{max-height:none;overflow:visible}.eigentree figure,.eigentree .anomalies>li,
.eigentree .profile tbody{break-inside:avoid}.eigentree h2,.eigentree h3{break-after:avoid}}
"""

STYLE = Html(RULES.replace("LIGHT", LIGHT).replace("DARK", DARK).replace("\n", ""))
"""The rules of all pages, each of them below the class ``eigentree``, so that nothing else is touched."""


def fragment(label: str, *inner: object) -> Html:
    """Return what a notebook shows of a value, with the style that it needs."""
    return element("div", element("style", STYLE), *inner, class_="eigentree", role="group", aria_label=label)
