"""Commands about trees and the grammars that are learned from them."""
